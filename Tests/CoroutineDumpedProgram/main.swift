// A program with a coroutine of every kind, whose dumps are compared: those of all backends with each other, and
// those made inside, by a signal, from outside, and of its core file. See `DumpAgreementTests` and
// scripts/test-dumps.sh.
//
// It writes a dump as text and one as JSON to the standard output. It writes another text at each SIGQUIT, and JSON
// at each SIGUSR1, until its standard input ends.

import CCoroutine
import Coroutine
import CoroutineDebug
import Glibc

// As in a program that a Dispatch thread has started: no thread takes these signals by itself.
private var blocked = sigset_t()
sigaddset(&blocked, SIGQUIT)
sigaddset(&blocked, SIGUSR1)
pthread_sigmask(SIG_BLOCK, &blocked, nil)

/// One instruction: wherever the thread is stopped, it stands here.
@inline(never)
private func spin() -> Never { while true {} }

private func place(of id: UInt64) throws -> UInt? {
  let dump = try CoroutineDump.capture(interruptsThreads: true)
  return dump.coroutines.first { $0.id == id && !$0.isGenerator }?.frames.first?.address
}

private var text = CoroutineDump.Options()
private var json = CoroutineDump.Options(format: .json)
text.tree = true
// Sanitizers hold back signals from a thread that calls nothing.
private let asksThreads = !coroutine_sanitizers_active()
text.interruptsThreads = asksThreads
json.interruptsThreads = asksThreads
try CoroutineDump.onSignal(SIGQUIT, to: .standardOutput, options: text)
try CoroutineDump.onSignal(SIGUSR1, to: .standardOutput, options: json)

CoroutineDump.recordsCreation = true
private let fixture = try DumpFixture()
if asksThreads {
  let spinning = Coroutine(on: ThreadPool(threads: 1), name: "spinning") { () -> Void in spin() }
  // The thread has arrived when it no longer moves.
  var before: UInt?
  while true {
    let now = try place(of: spinning.id)
    if now != nil, now == before { break }
    before = now
  }
}
for options in [text, json] {
  var dump = ""
  // On a busy machine a thread may get no processor in time.
  repeat {
    dump = ""
    try CoroutineDump.write(options: options) { dump += String(decoding: $0, as: UTF8.self) }
  } while dump.contains("did not answer") || dump.contains("unanswered")
  print(dump, terminator: "")
}
fflush(nil)

private var byte: UInt8 = 0
while read(0, &byte, 1) > 0 {}
_exit(0)
