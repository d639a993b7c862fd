import CoroutineTestSupport
import Testing

@testable import CoroutineDebug

/// The text of a dump, from made-up backtraces.
@Suite(.ownThreads) struct DumpTextTests {
  private func frame(
    _ address: UInt, _ function: String?, _ line: Int? = nil, isInlined: Bool = false, isRuntime: Bool = false
  ) -> CoroutineBacktrace.Frame {
    CoroutineBacktrace.Frame(
      address: address, function: function, file: line.map { _ in "/project/Sources/app/Files.swift" }, line: line,
      column: 3, image: "/usr/bin/app", imageOffset: address - 0x1000, isInlined: isInlined, isRuntime: isRuntime)
  }

  private func coroutine(
    _ id: UInt64, _ name: String = "", _ state: CoroutineBacktrace.State = .suspended, waitsFor: String = "a callback",
    frames: [CoroutineBacktrace.Frame] = [], isTruncated: Bool = false
  ) -> CoroutineBacktrace {
    var coroutine = CoroutineBacktrace(id: id, name: name, state: state)
    if state == .suspended { coroutine.waitsFor = waitsFor }
    coroutine.frames = frames
    coroutine.isTruncated = isTruncated
    return coroutine
  }

  private var stack: [CoroutineBacktrace.Frame] {
    [
      frame(0x2000, "CoroutineCore.park(_:at:)", 12, isRuntime: true), frame(0x3000, "read()", 7, isInlined: true),
      frame(0x3000, "copy(_:)", 31), frame(0x4000, "closure #1 in copyAll()", 18, isInlined: true),
      frame(0x4000, "thunk for closure #1 in copyAll()", isRuntime: true), frame(0x5000, nil), frame(0x6000, "main"),
    ]
  }

  @Test func oneCoroutine() {
    let reader = coroutine(12, "reader", waitsFor: #"receive on channel "files""#, frames: stack)
    #expect(
      CoroutineDump(coroutines: [reader]).description == """
        coroutine 12 "reader": suspended, receive on channel "files"
            0  0x000000003000 read() [inlined] at Files.swift:7
            1  0x000000003000 copy(_:) at Files.swift:31
            2  0x000000004000 closure #1 in copyAll() at Files.swift:18
            3  0x000000005000 ??? in app+0x4000
            4  0x000000006000 main in app

        """)
  }

  @Test func oneThatWasCancelledIsSaidToBe() {
    var reader = coroutine(12, "reader", waitsFor: "a callback")
    reader.isCancelled = true
    let dump = CoroutineDump(coroutines: [reader])
    #expect(dump.description == "coroutine 12 \"reader\": suspended, cancelled, a callback\n")
    #expect(dump.tree == "coroutine 12 \"reader\": suspended, cancelled, a callback\n")
  }

  /// Names as a hostile process may have them.
  @Test func namesDoNotBreakLinesOrReachTheTerminal() {
    let odd = coroutine(3, "a\nb\u{1b}[2J\u{9b}é\u{202e}\u{2028}👩‍🚀", waitsFor: "receive on channel \"\u{7f}\r\"")
    #expect(
      CoroutineDump(coroutines: [odd]).description == #"""
        coroutine 3 "a\u{a}b\u{1b}[2J\u{9b}é\u{202e}\u{2028}👩‍🚀": suspended, receive on channel "\u{7f}\u{d}"

        """#)
  }

  @Test func namesInAReportDoNotReachTheTerminalEither() {
    let one = coroutine(3, "a\u{1b}[2J", waitsFor: "mutex \"x\ny\", held by coroutine 4 \"b\u{9b}\"")
    let other = coroutine(4, "b\u{9b}", waitsFor: "mutex \"z\", held by coroutine 3 \"a\u{1b}[2J\"")
    #expect(
      DeadlockReport(kind: .cycle, coroutines: [one, other]).description.hasPrefix(
        #"""
        deadlock: 2 coroutines wait for each other
          coroutine 3 "a\u{1b}[2J" waits for mutex "x\u{a}y", held by coroutine 4 "b\u{9b}",
          which waits for mutex "z", held by coroutine 3 "a\u{1b}[2J"

        """#))
  }

  /// A C function's name may be anything, and so may a file's.
  @Test func functionsAndFilesDoNotReachTheTerminalEither() {
    let odd = "a\u{1b}[2J"
    func frame(_ file: String?) -> CoroutineBacktrace.Frame {
      CoroutineBacktrace.Frame(
        address: 0x1000, function: odd, file: file, line: file.map { _ in 7 }, column: nil, image: "/usr/lib/\(odd)",
        imageOffset: 0, isInlined: false, isRuntime: false)
    }
    #expect(frame("/project/\(odd)").description == #"0x000000001000 a\u{1b}[2J at a\u{1b}[2J:7"#)
    #expect(frame(nil).description == #"0x000000001000 a\u{1b}[2J in a\u{1b}[2J"#)
  }

  @Test func namesOfKindsDoNotReachTheTerminalEither() {
    var text = ""
    DumpStyle().write([CoroutineDump.StackSize(label: "\"a\u{1b}[*J\"", count: 2, peak: 9, size: 65536)], to: &text)
    #expect(text.hasSuffix(#"   "a\u{1b}[*J": 64 KiB (2 coroutines, 0 of 64 KiB at most)\#n"#))
  }

  @Test func aGroupSaysHowMuchTimeTheyHaveLeft() {
    let sleepers = [50, 7, 90].enumerated().map { index, seconds in
      var sleeper = coroutine(UInt64(index + 1), waitsFor: "sleep", frames: stack)
      sleeper.timeLeft = .seconds(seconds)
      return sleeper
    }
    let heading = CoroutineDump(coroutines: sleepers).description.prefix { $0 != "\n" }
    #expect(heading == "3 coroutines: suspended, sleep, 7 s to 90 s left")
  }

  @Test func nothingIsLeftOutOrShortenedWhereThatIsAskedFor() {
    let dump = CoroutineDump(coroutines: [coroutine(12, "", .ready, frames: stack, isTruncated: true)])
    #expect(
      dump.text(folding: false, fullPaths: true) == """
        coroutine 12: ready
            0  0x000000002000 CoroutineCore.park(_:at:) at /project/Sources/app/Files.swift:12
            1  0x000000003000 read() [inlined] at /project/Sources/app/Files.swift:7
            2  0x000000003000 copy(_:) at /project/Sources/app/Files.swift:31
            3  0x000000004000 closure #1 in copyAll() [inlined] at /project/Sources/app/Files.swift:18
            4  0x000000004000 thunk for closure #1 in copyAll() in /usr/bin/app
            5  0x000000005000 ??? in /usr/bin/app+0x4000
            6  0x000000006000 main in /usr/bin/app
             … and further frames

        """)
  }

  @Test func equalStacksStandTogetherTheMostFirst() {
    let frames = [frame(0x2000, "work()", 5)]
    var coroutines = [coroutine(1, frames: [frame(0x9000, "listen()", 9)])]
    coroutines += (2..<12).map { coroutine($0, "worker", waitsFor: #"receive on channel "jobs""#, frames: frames) }
    coroutines += [coroutine(12, "", .ready, frames: frames), coroutine(13, "", .ready, frames: frames)]
    #expect(
      CoroutineDump(coroutines: coroutines).description == """
        10 coroutines: suspended, receive on channel "jobs"
           2 "worker", 3 "worker", 4 "worker", 5 "worker", 6 "worker", 7 "worker", 8 "worker", 9 "worker", and 2 more
            0  0x000000002000 work() at Files.swift:5

        2 coroutines: ready
           12, 13
            0  0x000000002000 work() at Files.swift:5

        coroutine 1: suspended, a callback
            0  0x000000009000 listen() at Files.swift:9

        """)
  }

  @Test func equalStacksThatWaitForDifferentThingsStandTogetherToo() {
    let frames = [frame(0x2000, "answer()", 5)]
    var coroutines = (1...9).map { coroutine($0, waitsFor: "receive on channel \"\($0)\"", frames: frames) }
    coroutines += (10...12).map { coroutine($0, waitsFor: "a callback", frames: frames) }
    #expect(
      CoroutineDump(coroutines: coroutines).description == """
        12 coroutines: suspended
           a callback: 10, 11, 12
           receive on channel "1": 1
           receive on channel "2": 2
           receive on channel "3": 3
           receive on channel "4": 4
           receive on channel "5": 5
           receive on channel "6": 6
           receive on channel "7": 7
           and 2 other things
            0  0x000000002000 answer() at Files.swift:5

        """)
  }

  @Test func anAddressInNoImageHasNoName() {
    var symbolicator = Symbolicator()
    let frames = symbolicator.frames(of: [0x10])
    #expect(frames.count == 1)
    #expect(frames.first?.image == nil)
    #expect(frames.first?.description == "0x000000000010 ???")
  }

  @Test func noCoroutines() {
    #expect(CoroutineDump(coroutines: []).description == "no coroutines\n")
  }
}
