// SPDX-License-Identifier: Apache-2.0

// Loads a trace into Perfetto's own engine, the trace processor that ui.perfetto.dev runs (WebAssembly). Compares
// what has arrived there with the file.
//
//     node load.js <Perfetto's folder, with engine_bundle.js> <trace.json> [<SQL>...]
//
// The SQL's results are printed. Ends with 1 if anything was lost, is incomplete, or was reported as an error.
'use strict';
const fs = require('fs');
const path = require('path');
const vm = require('vm');

const [perfetto, file, ...queries] = process.argv.slice(2);

// Without the line of the engine's source, which has 100 kB.
process.on('uncaughtException', error => {
  console.error(`error: ${error.message}`);
  process.exit(1);
});

// MARK: The messages: protobuf, of which these fields are used

const STREAM_MESSAGE = 1;
const [SEQUENCE, REQUEST, RESPONSE, FATAL_ERROR, DATA, QUERY, APPENDED, ANSWER] = [1, 2, 3, 5, 101, 103, 201, 203];
const [APPEND, FINALIZE, RUN_QUERY] = [1, 2, 3];

function varint(number) {
  const bytes = [];
  for (; number > 127; number = Math.floor(number / 128)) bytes.push((number % 128) | 128);
  return Buffer.from([...bytes, number]);
}

const numberField = (field, number) => Buffer.concat([varint(field * 8), varint(number)]);

function bytesField(field, bytes) {
  return Buffer.concat([varint(field * 8 + 2), varint(bytes.length), bytes]);
}

function request(sequence, method, ...fields) {
  const body = [numberField(SEQUENCE, sequence), numberField(REQUEST, method), ...fields];
  return bytesField(STREAM_MESSAGE, Buffer.concat(body));
}

// The fields of a message by number. Each is a list of numbers (BigInt) or of bytes.
function fields(bytes) {
  const found = {};
  let at = 0;
  function number() {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return BigInt.asIntN(64, value);
    }
  }
  while (at < bytes.length) {
    const key = Number(number());
    let value;
    if (key % 8 === 0) {
      value = number();
    } else {
      const length = key % 8 === 1 ? 8 : key % 8 === 5 ? 4 : Number(number());
      value = bytes.subarray(at, at += length);
    }
    (found[key >> 3] ??= []).push(value);
  }
  return found;
}

const packed = bytes => {
  const numbers = [];
  for (let start = 0, at = 0; at < bytes.length; at++) {
    if (bytes[at] > 127) continue;
    numbers.push(fields(Buffer.concat([Buffer.from([8]), bytes.subarray(start, at + 1)]))[1][0]);
    start = at + 1;
  }
  return numbers;
};

// The rows of a query's result.
function addRows(result, rows) {
  for (const bytes of result[3] ?? []) {
    const batch = fields(bytes);
    const texts = Buffer.concat(batch[5] ?? []).toString().split('\0');
    const numbers = packed(Buffer.concat(batch[2] ?? []));
    const floats = Buffer.concat(batch[3] ?? []);
    let [text, number, float] = [0, 0, 0];
    for (const kind of packed(Buffer.concat(batch[1] ?? []))) {
      if (!rows.length || rows.at(-1).length === rows.columns) rows.push([]);
      if (kind === 2n) rows.at(-1).push(Number(numbers[number++]));
      else if (kind === 3n) rows.at(-1).push(floats.readDoubleLE(8 * float++));
      else rows.at(-1).push(kind === 4n ? texts[text++] : null);
    }
  }
}

// MARK: The engine: made for a browser's worker, which is simulated here

function startEngine(receive) {
  const contents = url => fs.readFileSync(path.join(perfetto, path.basename(url)));
  const location = {href: 'http://localhost/'};
  const worker = {
    self: {location}, location, console: {log() {}, warn() {}, error: console.error},
    TextDecoder, TextEncoder, URL, performance, setTimeout, crypto: globalThis.crypto, WorkerGlobalScope() {},
    XMLHttpRequest: class {
      open(method, url) { this.url = url; }
      send() {
        this.status = 200;
        this.response = Uint8Array.from(contents(this.url)).buffer;
      }
    },
  };
  vm.createContext(worker);
  vm.runInContext(contents('engine_bundle.js').toString(), worker);
  const port = {postMessage: bytes => receive(Buffer.from(bytes))};
  worker.self.onmessage({data: port});
  const Bytes = vm.runInContext('Uint8Array', worker);
  return bytes => port.onmessage({data: Bytes.from(bytes)});
}

// MARK: The comparison

let problems = 0;
function complain(text) {
  console.error(`error: ${text}`);
  problems += 1;
}

const checks = {
  complaints: "SELECT name, value FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0",
  slices: 'SELECT count(*) FROM slice',
  openSlices: 'SELECT count(*) FROM slice WHERE dur < 0',
  arrows: 'SELECT count(*) FROM flow',
  // An arrow leads from the slice in which a coroutine became ready to the beginning of the coroutine's turn.
  wrongArrows: `SELECT count(*) FROM flow LEFT JOIN slice o ON o.id = slice_out LEFT JOIN slice i ON i.id = slice_in
    WHERE o.id IS NULL OR i.id IS NULL OR i.ts < o.ts
      OR extract_arg(i.arg_set_id, 'args.coroutine') IS NULL OR extract_arg(i.arg_set_id, 'args.queued us') IS NULL`,
  threads: 'SELECT count(*) FROM thread WHERE tid > 0 AND name IS NOT NULL',
  processes: 'SELECT count(*) FROM process WHERE pid > 0 AND name IS NOT NULL',
};

function compare(results) {
  const number = name => results[name][0][0];
  const events = JSON.parse(fs.readFileSync(file)).traceEvents;
  const count = (phase, name) => events.filter(e => e.ph === phase && (!name || e.name === name)).length;
  for (const [name, value] of results.complaints) complain(`Perfetto says ${name}: ${value}`);
  const expected = {
    slices: count('B') + count('X') + count('i'), openSlices: 0, arrows: count('s'), wrongArrows: 0,
    threads: new Set(events.filter(e => e.name === 'thread_name').map(e => e.tid)).size,
    processes: count('M', 'process_name'),
  };
  for (const [name, value] of Object.entries(expected)) {
    if (number(name) !== value) complain(`${name}: ${number(name)} in Perfetto, and it should be ${value}`);
  }
  console.log(`${number('slices')} slices, ${number('arrows')} arrows, ${number('threads')} threads`);
}

const all = [...Object.values(checks), ...queries];
const results = [];
const send = startEngine(bytes => {
  for (const message of fields(bytes)[STREAM_MESSAGE]) {
    const reply = fields(message);
    for (const text of reply[FATAL_ERROR] ?? []) complain(text);
    for (const text of fields(reply[APPENDED]?.[0] ?? Buffer.alloc(0))[2] ?? []) complain(text);
    if (Number(reply[RESPONSE]?.[0]) !== RUN_QUERY) continue;
    const result = fields(reply[ANSWER][0]);
    if (result[1] || !results.length || results.at(-1).isComplete) {
      results.push(Object.assign([], {columns: (result[1] ?? []).length}));
    }
    for (const text of result[2] ?? []) complain(text);
    addRows(result, results.at(-1));
    results.at(-1).isComplete = (result[3] ?? []).some(batch => fields(batch)[6]);
  }
});
// The engine does not report that it has started, so this waits until it has no other work.
setTimeout(() => {
  const trace = fs.readFileSync(file);
  let sequence = 0;
  for (let at = 0; at < trace.length; at += 1 << 20) {
    send(request(++sequence, APPEND, bytesField(DATA, trace.subarray(at, at + (1 << 20)))));
  }
  send(request(++sequence, FINALIZE));
  for (const sql of all) send(request(++sequence, RUN_QUERY, bytesField(QUERY, bytesField(1, Buffer.from(sql)))));
  compare(Object.fromEntries(Object.keys(checks).map((name, index) => [name, results[index]])));
  for (const rows of results.slice(Object.keys(checks).length)) {
    for (const row of rows) console.log(row.join(' | '));
  }
  process.exit(problems ? 1 : 0);
}, 2000);
