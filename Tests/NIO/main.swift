// CoroutineNIO with real event loops and sockets. scripts/test-everybody.sh runs it, as a package that depends on
// this one.
import Coroutine
import CoroutineNIO
import Glibc
import NIOCore
import NIOPosix

/// Two loops: a connection's, and another one.
let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)

/// NIO's own wait in `async` code still works.
func getInAsyncCode() async throws -> Int { try await group.next().submit { 1 }.get() }

/// On this thread, so that there is none of Dispatch's: once a second Dispatch looks at its threads, and where it finds no
/// descriptor for that it ends the process.
func runHere(_ program: @escaping @Sendable () throws -> Void) throws { try runUntilComplete { try program() } }

let checks =
  schedulerChecks + overlapChecks + futureChecks + connectionChecks + writingChecks + messageChecks + serverChecks
  + streamChecks
let chosen = CommandLine.arguments.dropFirst()
if chosen.first == "program", let program = programs[chosen.last ?? ""] {
  try runHere(program)
  exit(0)
}
var failures = try await getInAsyncCode() == 1 ? 0 : 1
for check in checks where chosen.isEmpty || chosen.contains(check.name) {
  do {
    try await Coroutine(on: .pool, name: check.name) {
      try withTimeout(.seconds(60)) { try check.body() }
    }.value
  } catch {
    failures += 1
    print("\(check.name): \(error)")
  }
}
try await group.shutdownGracefully()
print(failures == 0 ? "all as expected" : "\(failures) of \(checks.count) failed")
