// SPDX-License-Identifier: Apache-2.0
//
// Draws a part of a trace as a picture: a row for each thread, a box for each turn of a coroutine, an arrow from where a coroutine
// was made ready to where it ran.
//
//   node Tools/perfetto/draw.js TRACE.json FROM TO > picture.svg       FROM and TO in microseconds since the trace began

'use strict';

const fs = require('fs');

const [file, from, to] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
if (!file || !(from < to)) {
  console.error('usage: node Tools/perfetto/draw.js TRACE.json FROM TO > picture.svg');
  process.exit(2);
}
const events = JSON.parse(fs.readFileSync(file, 'utf8')).traceEvents;

const threads = new Map();  // by number: name, open slices, finished slices
const thread = (number) => {
  if (!threads.has(number)) threads.set(number, {name: `thread ${number}`, open: [], slices: []});
  return threads.get(number);
};
const starts = new Map();  // of arrows, by their numbers
const arrows = [];
for (const event of events) {
  const track = thread(event.tid);
  switch (event.ph) {
    case 'M': if (event.name === 'thread_name') track.name = event.args.name; break;
    case 'B': track.open.push({name: event.name, begin: event.ts}); break;
    case 'E': {
      const slice = track.open.pop();
      if (slice) track.slices.push({...slice, end: event.ts, then: (event.args || {}).then});
      break;
    }
    case 's': starts.set(event.id, event); break;
    case 'f': if (starts.has(event.id)) arrows.push([starts.get(event.id), event]); break;
  }
}

const isVisible = (begin, end) => end > from && begin < to;
const rows = [...threads].filter(([, track]) => track.slices.some((slice) => isVisible(slice.begin, slice.end)));
const [left, width, height, gap] = [120, 880, 34, 26];
const x = (time) => left + (Math.min(Math.max(time, from), to) - from) / (to - from) * width;
const y = new Map(rows.map(([number], index) => [number, 34 + index * (height + gap)]));
const colors = ['#4e79a7', '#f28e2b', '#59a14f', '#b07aa1', '#e15759', '#76b7b2', '#9c755f', '#edc948'];
const names = [...new Set(rows.flatMap(([, track]) => track.slices.map((slice) => slice.name)))].sort();
const text = (string) => string.replace(/&/g, '&amp;').replace(/</g, '&lt;');

const parts = [];
for (const [number, track] of rows) {
  const top = y.get(number);
  parts.push(`<text x="8" y="${top + 21}" class="track">${text(track.name)}</text>`);
  parts.push(`<line x1="${left}" x2="${left + width}" y1="${top + height}" y2="${top + height}" class="line"/>`);
  for (const slice of track.slices.filter((slice) => isVisible(slice.begin, slice.end))) {
    const [begin, size] = [x(slice.begin), Math.max(x(slice.end) - x(slice.begin), 1)];
    parts.push(`<rect x="${begin.toFixed(1)}" y="${top}" width="${size.toFixed(1)}" height="${height}" rx="2" ` +
      `fill="${colors[names.indexOf(slice.name) % colors.length]}"><title>${text(slice.name)}, then ${text(slice.then || '')}</title></rect>`);
    if (size > 7 * slice.name.length + 6) {
      parts.push(`<text x="${(begin + 5).toFixed(1)}" y="${top + 15}" class="name">${text(slice.name)}</text>`);
      if (slice.then && size > 6 * slice.then.length + 6) {
        parts.push(`<text x="${(begin + 5).toFixed(1)}" y="${top + 28}" class="then">${text(slice.then)}</text>`);
      }
    }
  }
}
for (const [start, end] of arrows) {
  if (start.ts < from || end.ts > to || !y.has(start.tid) || !y.has(end.tid)) continue;
  const [x1, x2] = [x(start.ts), x(end.ts)];
  const [y1, y2] = [y.get(start.tid) + height, y.get(end.tid) + (start.tid === end.tid ? height : 0)];
  const bend = start.tid === end.tid ? 16 : 0;
  parts.push(`<path d="M${x1.toFixed(1)},${y1} C${x1.toFixed(1)},${y1 + bend + (y2 - y1) / 2} ${x2.toFixed(1)},` +
    `${y2 + bend - (y2 - y1) / 2} ${x2.toFixed(1)},${y2}" class="arrow" marker-end="url(#head)"/>`);
}
const bottom = 34 + rows.length * (height + gap);
for (let step = 0; step <= 4; step += 1) {
  const at = left + width * step / 4;
  parts.push(`<text x="${at}" y="22" class="scale" text-anchor="middle">${((to - from) * step / 4).toFixed(0)} µs</text>`);
  parts.push(`<line x1="${at}" x2="${at}" y1="28" y2="${bottom}" class="line"/>`);
}
console.log(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${left + width + 20} ${bottom}" font-family="sans-serif">
<style>.track{font-size:13px;fill:#888}.name{font-size:12px;fill:#fff}.then{font-size:10px;fill:#fff;opacity:.85}.scale{font-size:11px;fill:#888}.line{stroke:#8883}.arrow{fill:none;stroke:#555;stroke-width:1}</style>
<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto"><path d="M0,0L8,4L0,8z" fill="#555"/></marker></defs>
${parts.join('\n')}
</svg>`);
