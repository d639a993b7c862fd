import CCoroutine
import Coroutine
import CoroutineInspection
import CoroutineTestSupport
import Foundation
import Testing

@testable import CoroutineDebug

/// Dumps of core files of copies of this process.
@Suite(
  .ownThreads,
  .disabled(if: coroutine_sanitizers_active(), "sanitizers reserve more memory than a file has room for"),
  .enabled(if: ForkedProcess.canBeInspected, "no process may look at another one here"))
struct CoreDumpTests {
  @Test func unusableCoreFilesAndExecutablesAreReported() async {
    await #expect(processExitsWith: .success) {
      let core = try CoreFile(of: ForkedProcess())
      func problem(_ core: String, _ executable: String = CoreFile.executable) -> InspectionError? {
        do throws(InspectionError) {
          _ = try CoroutineDump.capture(of: .core(core, executable: executable))
          return nil
        } catch {
          return error
        }
      }
      #expect(problem(core.path) == nil)
      let coroutine = Coroutine.immediate { try Coroutine.sleep(for: .seconds(5000)) }
      let partial = try CoreFile(of: ForkedProcess(), isGdbs: true)
      #expect(problem(partial.path)?.reason == .unusableCore)
      #expect(problem(partial.path)?.description.contains("gcore") == true)
      withExtendedLifetime(coroutine) {}
      #expect(problem(core.path, "/bin/sh")?.reason == .unusableExecutable)
      #expect(problem(core.path, "/bin/sh")?.description.contains("another build") == true)
      #expect(problem(core.path, "/etc/passwd")?.reason == .unusableExecutable)
      #expect(problem("/etc/passwd")?.description.contains("is no core file") == true)
      #expect(problem(CoreFile.executable)?.description.contains("is no core file") == true)
      #expect(problem("/tmp")?.description == "/tmp is no core file")
      #expect(problem(core.path, "/tmp")?.description == "/tmp is no executable that can be read")
      #expect(problem("/nowhere")?.description.contains("No such file") == true)
      for size in [core.size - 1, core.size / 2, 5000, 100] {
        core.cut(to: size)
        #expect(problem(core.path)?.reason == .unusableCore)
        #expect(problem(core.path)?.description.contains("is cut short: it has \(size) of") == true)
      }
    }
  }
}
