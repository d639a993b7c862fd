import CCoroutineUnwind
import CoroutineTestSupport
import Foundation
import Testing

@testable import CoroutineDebug

/// What the symbol tables and the debug information of a program of several libraries say.
@Suite(.ownThreads) struct SymbolTests {
  /// Of functions that several object files have copies of, as specialisations of generic ones, the linker names one.
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
    // A return address is one more. What fills the space between two functions ends within 16 bytes.
    for address in stride(from: 1, to: size, by: 1024) {
      guard let isAlone = isNameless(address) else { continue }
      known += 1
      if isAlone, isNameless(address + 16) != false { nameless += 1 }
    }
    #expect(known > 500)
    #expect(nameless == 0)
  }

  /// Not every linker gives a build a number.
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

/// What is made of the linker's names.
@Suite(.ownThreads) struct FunctionNameTests {
  /// One function stands for several that differ in what they call only: it may be another one of them that was called.
  @Test func aMergedFunctionIsSaidToBeOne() {
    let closure = "$s3app3runyySiF"
    #expect(FunctionName(mangled: closure).text == "run(_:)")
    #expect(FunctionName(mangled: closure + "Tm").text == "merged run(_:)")
    #expect(FunctionName(mangled: closure + "yycfU17_TATm").text == "merged closure #19 in run(_:)")
    #expect(FunctionName(mangled: closure + "yycfU17_TA").text == "closure #19 in run(_:)")
    #expect(FunctionName(mangled: closure + "Tm.llvm.7").text.hasPrefix("merged "))
    #expect(FunctionName(mangled: "main_Tm").text == "main_Tm")
  }

  /// As the compiler puts them in front of closures that C calls: in some builds with a line.
  @Test func whatHasAPlaceInNoFileOfTheSourceIsGlue() {
    let thunk = FunctionName(mangled: "$s3app3runyySiFyycfU17_To")
    #expect(thunk.isThunk)
    #expect(Symbolicator.isGlue(thunk, in: nil) && Symbolicator.isGlue(thunk, in: "/project/<compiler-generated>"))
    // An initializer that only calls another one may be written by hand.
    #expect(!Symbolicator.isGlue(thunk, in: "/project/main.swift"))
    let closure = FunctionName(mangled: "$s3app3runyySiFyycfU17_")
    #expect(!Symbolicator.isGlue(closure, in: nil) && !Symbolicator.isGlue(closure, in: "<compiler-generated>"))
  }
}
