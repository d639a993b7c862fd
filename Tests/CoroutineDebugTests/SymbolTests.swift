import CCoroutineUnwind
import Context
import CoroutineTestSupport
import Foundation
import Testing

@testable import CoroutineDebug

/// What the symbol tables and the debug information of a program of several libraries say.
@Suite(.ownThreads) struct SymbolTests {
  /// Several object files may have copies of one function, such as a specialisation of a generic one. The linker
  /// names only the one that it keeps.
  @Test func whereTheFileIsKnownSoIsTheFunction() throws {
    let file = DumpedProgram.executable
    let size = try #require(FileManager.default.attributesOfItem(atPath: file)[.size] as? UInt)
    let symbols = try #require(coroutine_symbols_open_empty())
    defer { coroutine_symbols_close(symbols) }
    #expect(coroutine_symbols_add(symbols, 0, size, 0, file, file, coroutine_image_build()))
    var image = symbol_image()
    let found = UnsafeMutablePointer<symbol>.allocate(capacity: Int(symbols_most))
    defer { found.deallocate() }
    var (known, nameless) = (0, 0)
    func isNameless(_ address: UInt) -> Bool? {
      let count = coroutine_symbols_find(symbols, address, &image, found)
      return found[count - 1].file == nil ? nil : found[count - 1].function == nil
    }
    // A return address is the address after the call, one more. The padding between two functions is under 16 bytes.
    for address in stride(from: 1, to: size, by: 1024) {
      guard let isAlone = isNameless(address) else { continue }
      known += 1
      if isAlone, isNameless(address + 16) != false { nameless += 1 }
    }
    #expect(known > 500)
    #expect(nameless == 0)
  }

  /// A process may map a library as often as it likes: its names are read once.
  @Test func aFileThatIsMappedManyTimesIsReadOnce() async {
    await #expect(processExitsWith: .success) {
      let file = DumpedProgram.executable
      let size = try FileManager.default.attributesOfItem(atPath: file)[.size] as! UInt
      let pages = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8).split(separator: " ")[0]
      let most = rlim_t(Int(pages)! * 4096 + 1 << 30)
      var limit = rlimit(rlim_cur: most, rlim_max: most)
      #expect(setrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &limit) == 0)
      let symbols = coroutine_symbols_open_empty()!
      for number in 0..<2000 as Range<UInt> {
        let start = number << 32
        #expect(coroutine_symbols_add(symbols, start, start + size, start, file, file, coroutine_image_build()))
      }
      var image = symbol_image()
      let found = UnsafeMutablePointer<symbol>.allocate(capacity: Int(symbols_most))
      defer { found.deallocate() }
      func isNamed(_ address: UInt) -> Bool {
        found[coroutine_symbols_find(symbols, address, &image, found) - 1].function != nil
      }
      guard let address = stride(from: 1, to: size, by: 64).first(where: isNamed) else { exit(2) }
      for number in 0..<2000 as Range<UInt> where !isNamed(number << 32 + address) { exit(3) }
      coroutine_symbols_close(symbols)
    }
  }

  /// Not every linker gives a build an identifier.
  @Test func buildsWithoutANumberAreToldApartByTheirSizes() {
    func build(_ size: UInt64, at offset: UInt64 = 0) -> coroutine_image_build {
      var header = Elf64_Phdr()
      (header.p_type, header.p_offset, header.p_vaddr, header.p_memsz) = (1, offset, 0x1000, size)
      return coroutine_image_build(&header, 1, true, 0, { _, _, _, _ in false }, nil)
    }
    #expect(image_build_is(build(64), build(64, at: 4096)) && !image_build_is(build(64), build(65)))
    #expect(image_build_is(build(64), coroutine_image_build()) && image_build_is(coroutine_image_build(), build(64)))
    #expect(image_build_is(coroutine_image_build(id: 1, layout: 1), coroutine_image_build(id: 1, layout: 2)))
    #expect(!image_build_is(coroutine_image_build(id: 1, layout: 1), coroutine_image_build(id: 2, layout: 1)))
  }
}

/// How the linker's names are turned into function names.
@Suite(.ownThreads) struct FunctionNameTests {
  private let backend = ContextCode(module: "ContextToy", symbolPrefixes: ["toy_", "jump_toy"], library: "libtoy.so")

  private func name(_ mangled: String) -> FunctionName { FunctionName(mangled: mangled, backend: backend) }

  @Test func whatIsTheBackendsTheBackendSays() {
    #expect(name("toy_trampoline").owner == .runtime && name("jump_toy").owner == .runtime)
    #expect(name("$s10ContextToy4jumpyyF").owner == .runtime)
    #expect(name("a_toy").owner == .program && name("$s11ContextToys4jumpyyF").owner == .program)
    #expect(FunctionName(mangled: "toy_trampoline", backend: nil).owner == .program)
  }

  /// The name as another process reports it.
  @Test func aBackendsCodeFitsIntoALine() {
    #expect(ContextCode(line: backend.line) == backend)
    let withoutLibrary = ContextCode(module: "ContextToy", symbolPrefixes: [])
    #expect(ContextCode(line: withoutLibrary.line) == withoutLibrary)
    #expect(ContextCode(line: "") == nil && ContextCode(line: "ContextToy") == nil)
  }

  /// A merged function stands for several that differ only in what they call. The one that was called may be another
  /// one.
  @Test func aMergedFunctionIsSaidToBeOne() {
    let closure = "$s3app3runyySiF"
    #expect(name(closure).text == "run(_:)")
    #expect(name(closure + "Tm").text == "merged run(_:)")
    #expect(name(closure + "yycfU17_TATm").text == "merged closure #19 in run(_:)")
    #expect(name(closure + "yycfU17_TA").text == "closure #19 in run(_:)")
    #expect(name(closure + "Tm.llvm.7").text.hasPrefix("merged "))
    #expect(name("main_Tm").text == "main_Tm")
  }

  /// The compiler puts thunks in front of closures that C calls, in some builds with a line.
  @Test func whatHasAPlaceInNoFileOfTheSourceIsGlue() {
    let thunk = name("$s3app3runyySiFyycfU17_To")
    #expect(thunk.isThunk)
    func isGlue(_ function: FunctionName, in file: String?) -> Bool {
      Symbolicator.isGlue(function, in: file, calling: nil)
    }
    #expect(isGlue(thunk, in: nil) && isGlue(thunk, in: "/project/<compiler-generated>"))
    // An initialiser that only calls another one may be written by hand.
    #expect(!isGlue(thunk, in: "/project/main.swift"))
    let closure = name("$s3app3runyySiFyycfU17_")
    #expect(!isGlue(closure, in: nil) && !isGlue(closure, in: "<compiler-generated>"))
  }

  /// As the optimiser does with a function whose parameter is not used.
  @Test func whatIsLeftOfAFunctionThatWasMovedIsGlue() {
    let function = name("$s3app4walkyS2i_SStKF")
    let moved = name("$s3app4walkyS2i_SStKFTf4nd_n")
    #expect(moved.text == function.text)
    #expect(Symbolicator.isGlue(function, in: nil, calling: moved))
    // A recursion, a function that calls a copy for one of its closures, and one with the same short name.
    for (caller, callee) in [
      (function, function), (moved, moved), (moved, function), (function, name("$s3app4walkyS2i_SStKFTf1nd_n")),
      (function, name("$s3app4walkyS2i_SitKFTf4nd_n")),
    ] {
      #expect(!Symbolicator.isGlue(caller, in: nil, calling: callee))
    }
  }
}
