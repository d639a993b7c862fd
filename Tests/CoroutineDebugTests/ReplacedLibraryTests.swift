import CCoroutine
import CCoroutineUnwind
import Coroutine
import CoroutineInspection
import CoroutineTestSupport
import Foundation
import Testing

@testable import CoroutineDebug

/// A library whose file was replaced or removed since it was loaded. The new file's unwind information must not be
/// used.
@Suite(.ownThreads) struct ReplacedLibraryTests {
  @Test func aDumpDoesNotNameFunctionsByTheOtherFile() throws {
    let library = try LoadedLibrary()
    let channel = Channel<Int>()
    let coroutine = library.receive(from: channel)
    let before = try backtrace(of: coroutine)
    let place = try #require(before.frames.firstIndex { $0.image == library.path })
    #expect(before.frames[place].function == "_Unwind_Backtrace")
    try library.replace(behind: before.frames[place].imageOffset)
    let after = try backtrace(of: coroutine)
    #expect(after.frames[place].function == nil && after.frames[place].image == library.path)
    #expect(after.frames.map(\.address) == before.frames.map(\.address))
    channel.close()
    _ = try? coroutine.getBlocking()
  }

  @Test(
    .disabled(if: coroutine_sanitizers_active(), "sanitizers reserve more memory than a core file has room for"),
    .enabled(if: ForkedProcess.canBeInspected, "no process may look at another one here"))
  func norDoesADumpFromOutside() async {
    await #expect(processExitsWith: .success) {
      let library = try LoadedLibrary()
      let channel = Channel<Int>()
      let coroutine = library.receive(from: channel)
      let copy = ForkedProcess()
      let core = try CoreFile(of: copy)
      let ofCore = InspectedProcess.core(core.path, executable: CoreFile.executable)
      let before = try #require(try CoroutineDump.capture(of: ofCore)[coroutine.id])
      let place = try #require(before.frames.firstIndex { $0.image == library.path })
      #expect(before.frames[place].function == "_Unwind_Backtrace")
      // The backtrace goes on to the beginning of the stack, whatever the backend's frames are.
      #expect(before.frames.count > place + 2 && !before.isTruncated)
      #expect(try written { try CoroutineDump.write(of: ofCore, to: $0) }.first != "(")
      for isGone in [false, true] {
        if isGone { library.remove() } else { try library.replace(behind: before.frames[place].imageOffset) }
        // A live process's memory can be read.
        let live = try #require(try copy.capture()[coroutine.id])
        #expect(live.frames.map(\.address) == before.frames.map(\.address))
        #expect(live.frames[place].function == nil && live.frames[place].image == library.path)
        // The unwind information of the library's code is in its file alone, so the backtrace ends here.
        let cut = try #require(try CoroutineDump.capture(of: ofCore)[coroutine.id])
        #expect(cut.frames.map(\.address) == before.frames[...place].map(\.address))
        #expect(cut.frames[place].function == nil && cut.isTruncated)
        #expect(Array(cut.frames[..<place]) == Array(before.frames[..<place]))
        // The dump says so first of all.
        let problem = isGone ? "can't be read" : "is another build than the one that was loaded"
        for (process, rest) in [
          (InspectedProcess.running(copy.id), ")\n"), (ofCore, ", and stacks end where they lead into it)\n"),
        ] {
          let text = try written { try CoroutineDump.write(of: process, to: $0) }
          #expect(text.hasPrefix("(\(library.path) \(problem): its functions have no names" + rest))
          let json = try written { try CoroutineDump.write(of: process, to: $0, options: .init(format: .json)) }
          #expect(json.contains("\"warnings\":[\"\(library.path) \(problem): its"))
        }
      }
      channel.close()
      _ = try? await coroutine.get()
    }
  }
}

/// A library with a file of its own, which calls back into the program.
private final class LoadedLibrary: Sendable {
  let path: String
  private let folder: URL
  private let backtrace: Backtrace

  private typealias Callback = @convention(c) (OpaquePointer?, UnsafeMutableRawPointer?) -> CInt
  private typealias Backtrace = @Sendable @convention(c) (Callback, UnsafeMutableRawPointer?) -> CInt

  /// Copies a library that every program has: the one that unwinds stacks for C++.
  init() throws {
    let original = try #require(Self.libraries.first { $0.contains("/libgcc_s.so") })
    folder = FileManager.default.temporaryDirectory.appending(path: "coroutine-library-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
    path = folder.appending(path: "libcopy.so").path
    try FileManager.default.copyItem(atPath: original, toPath: path)
    let function = dlsym(dlopen(path, RTLD_NOW | RTLD_LOCAL), "_Unwind_Backtrace")
    // The C++ ABI declares this type.
    backtrace = unsafeBitCast(try #require(function), to: Backtrace.self)
  }

  deinit { try? FileManager.default.removeItem(at: folder) }

  /// A coroutine that is suspended in a function that the library calls.
  func receive(from channel: Channel<Int>) -> Coroutine<Void, any Error> {
    Coroutine.immediate(name: "called back") { [backtrace] in
      withoutActuallyEscaping({ _ = try? channel.receive() }) { body in
        var body = body
        withUnsafeMutablePointer(to: &body) { body in
          _ = backtrace(
            { _, body in
              body?.assumingMemoryBound(to: (() -> Void).self).pointee()
              return 5  // _URC_END_OF_STACK: no further
            }, body)
        }
      }
    }
  }

  func remove() { unlink(path) }

  /// Puts another library in its place, which has some function at the same address.
  func replace(behind address: UInt) throws {
    // Neither the original nor its copy, which is the same build.
    let others = Self.libraries.filter { !$0.contains("/libgcc_s.so") && $0 != path }
    let other = try #require(others.first { Self.hasFunction($0, address) })
    try FileManager.default.copyItem(atPath: other, toPath: path + "-new")
    #expect(rename(path + "-new", path) == 0)
  }

  private static func hasFunction(_ file: String, _ address: UInt) -> Bool {
    guard let symbols = coroutine_symbols_open_empty() else { return false }
    defer { coroutine_symbols_close(symbols) }
    return withUnsafeTemporaryAllocation(of: symbol.self, capacity: Int(symbols_most)) { found in
      var image = symbol_image()
      guard coroutine_symbols_add(symbols, 0, address + 1, 0, file, file, coroutine_image_build()) else { return false }
      let count = coroutine_symbols_find(symbols, address, &image, found.baseAddress!)
      return found[count - 1].function != nil
    }
  }

  /// The loaded libraries, in a fixed order.
  private static var libraries: [String] {
    let maps = (try? FileHandle(forReadingFrom: URL(filePath: "/proc/self/maps")).readToEnd()) ?? Data()
    let paths = String(decoding: maps, as: UTF8.self).split(separator: "\n").compactMap { line in
      line.firstIndex(of: "/").map { String(line[$0...]) }
    }
    return Set(paths).filter { $0.contains(".so") }.sorted()
  }
}
