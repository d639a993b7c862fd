import CCoroutine
import Coroutine
import CoroutineInspection
import CoroutineTestSupport
import Foundation
import Testing

@testable import CoroutineDebug

/// Goes down by a page a level, and comes back.
@inline(never)
private func dive(_ pages: Int) -> Int {
  withUnsafeTemporaryAllocation(byteCount: 4096, alignment: 16) { page in
    page.initializeMemory(as: UInt8.self, repeating: 0xff)
    return (pages > 1 ? dive(pages - 1) : 0) + Int(page[pages % 4096])
  }
}

private let shallowStack = 192 << 10

/// How deep the stack of a shallow coroutine is said to have been, after a deep coroutine has used that stack.
private func peakAfterADeepOne() throws -> Int {
  let channel = Channel<Int>()
  let deep = Coroutine.immediate(stackSize: shallowStack) { dive(8) + (try channel.receive()) }
  channel.close()
  while deep.state != .finished { sched_yield() }
  let shallow = Coroutine.immediate(stackSize: shallowStack) { dive(1) + (try Channel<Int>().receive()) }
  return try #require(try CoroutineDump.capture(stackPeaks: true)[shallow.id]?.stackPeak)
}

/// How deep stacks have been. Not under sanitizers: they keep variables elsewhere, and use more memory for them.
@Suite(.ownThreads, .disabled(if: coroutine_sanitizers_active(), "sanitizers lay stacks out anew"))
struct StackPeakTests {
  @Test func theDeepestPlaceIsToldAndASizeSuggested() async {
    await #expect(processExitsWith: .success) {
      CoroutineDump.measuresStacks = true
      let channel = Channel<Int>(name: "surface")
      for depth in [2, 10, 5] {
        Coroutine.immediate(name: "diver \(depth)") { dive(depth) + (try channel.receive()) }
      }
      // Unlike every other closure: an optimising compiler merges closures that are alike, under the name of one of
      // them.
      Coroutine.immediate { try channel.receive() &* 1013 }
      let dump = try CoroutineDump.capture(stackPeaks: true)
      let divers = dump.coroutines.filter { !$0.name.isEmpty }
      #expect(divers.map(\.name) == ["diver 2", "diver 10", "diver 5"])
      for (diver, depth) in zip(divers, [2, 10, 5]) {
        let peak = try #require(diver.stackPeak)
        // Some frames take room in addition to the pages.
        #expect(peak > depth * 4096 && peak < (depth + 8) * 4096, "\(depth): \(peak)")
        #expect(diver.stackUsed! <= peak)
      }
      let sizes = dump.stackSizes
      #expect(sizes.map(\.label).first == "\"diver *\"" && sizes.count == 2)
      #expect(sizes[1].label.hasPrefix("closure #2 in "))
      #expect(sizes[0].count == 3 && sizes[0].peak == divers[1].stackPeak && sizes[0].size >= 256 << 10)
      let suggestion = sizes[0].suggestion
      #expect(suggestion >= sizes[0].peak * 3 / 2)
      #expect(suggestion <= max(64 << 10, sizes[0].peak * 3 / 2 + 16 << 10))
      #expect(suggestion % (16 << 10) == 0)
      leave()
    }
  }

  @Test func nothingIsToldUnlessAskedFor() throws {
    let channel = Channel<Int>()
    let coroutine = Coroutine.immediate { try channel.receive() }
    let dump = try CoroutineDump.capture()
    #expect(dump[coroutine.id]?.stackPeak == nil && dump.stackSizes.isEmpty)
    channel.close()
    #expect(throws: (any Error).self) { try coroutine.getBlocking() }
  }

  @Test func theStacksFormerUserCountsOnlyIfStacksAreNotMeasured() async {
    await #expect(processExitsWith: .success) {
      CoroutineDump.measuresStacks = true
      let measured = try peakAfterADeepOne()
      #expect(measured < 8 * 4096)
      CoroutineDump.measuresStacks = false
      let unmeasured = try peakAfterADeepOne()
      #expect(unmeasured > 8 * 4096)
      leave()
    }
  }

  @Test func textAndJSONTellIt() async {
    await #expect(processExitsWith: .success) {
      let channel = Channel<Int>(name: "surface")
      for depth in [3, 7] { Coroutine.immediate(name: "diver") { dive(depth) + (try channel.receive()) } }
      var options = CoroutineDump.Options()
      options.stackPeaks = true
      for groups in [true, false] {
        options.groups = groups
        let text = String(decoding: try bytes(options), as: UTF8.self)
        #expect(text.contains(" KiB at its deepest\n"), "\(text)")
        #expect(text.contains("\nstack sizes that would do, by how deep they have been\n   \"diver\": "), "\(text)")
        #expect(text.contains(" KiB (2 coroutines, "), "\(text)")
      }
      options.format = .json
      let json = try JSONSerialization.jsonObject(with: try bytes(options))
      let schema = #filePath.split(separator: "/").dropLast(3).reduce("") { "\($0)/\($1)" } + "/docs/dump-schema.json"
      try JSONSchema(contentsOf: schema).validate(json)
      let sizes = (json as? [String: Any])?["stackSizes"] as? [[String: Any]]
      #expect(sizes?.first?["of"] as? String == "\"diver\"" && sizes?.first?["count"] as? Int == 2)
      leave()
    }
  }

  @Test(.enabled(if: ForkedProcess.canBeInspected, "no process may look at another one here"))
  func liveProcessAndCoreFileSayTheSame() async {
    await #expect(processExitsWith: .success) {
      let channel = Channel<Int>()
      for depth in [2, 20] {
        Coroutine.immediate(stackSize: shallowStack) { dive(depth) + (try channel.receive()) }
      }
      let copy = ForkedProcess()
      let core = try CoreFile(of: copy)
      let inside = try CoroutineDump.capture(stackPeaks: true)
      let live = try CoroutineDump.capture(of: .running(copy.id), stackPeaks: true)
      let left = try CoroutineDump.capture(of: .core(core.path, executable: CoreFile.executable), stackPeaks: true)
      #expect(inside.coroutines.count > 1)
      #expect(inside.coroutines.contains { $0.stackPeak ?? 0 > 20 * 4096 })
      #expect(inside.coroutines.map(\.stackPeak) == live.coroutines.map(\.stackPeak))
      #expect(inside.coroutines.map(\.stackPeak) == left.coroutines.map(\.stackPeak))
      #expect(inside.stackSizes == live.stackSizes && inside.stackSizes == left.stackSizes)
      withExtendedLifetime(copy) {}
      // Nothing is deinitialised from here on.
      unlink(core.path)
      leave()
    }
  }
}

private func bytes(_ options: CoroutineDump.Options) throws -> Data {
  var data = Data()
  try CoroutineDump.write(options: options) { data.append(contentsOf: $0) }
  return data
}
