import CCoroutine
import Coroutine
import CoroutineTestSupport
import Dispatch
import Foundation
import Testing

#if canImport(FoundationXML)
  import FoundationXML
#endif

/// The examples of RJIterator's README, with the results that it gives.
@Suite(.ownThreads, .timeLimit(.minutes(30))) struct SeedRJIteratorTests {
  typealias Robot = TwoWayGenerator<String?, String, String>

  static func robot(_ name: String) -> Robot {
    Robot { yield in
      var command: String?
      repeat {
        try yield("Hello \(name), How are you?")
        try yield("Today is Friday")
        try yield("So yesterday is Thursday")
        try yield("And tomorrow is Saturday")
        command = try yield("Over")
      } while command == "again"
      return "==talk done=="
    }
  }

  @Test func theRobotSaysASentenceAtEachNextAndItsLastOneForEver() throws {
    let robot = Self.robot("Wukaka")
    #expect(try robot.next() == .yielded("Hello Wukaka, How are you?"))
    #expect(try robot.next() == .yielded("Today is Friday"))
    #expect(try robot.next() == .yielded("So yesterday is Thursday"))
    #expect(try robot.next() == .yielded("And tomorrow is Saturday"))
    #expect(try robot.next() == .yielded("Over"))
    for _ in 1...3 { #expect(try robot.next() == .returned("==talk done==")) }
  }

  @Test func aCommandMakesItTalkAgain() throws {
    let robot = Self.robot("Wukaka")
    for _ in 1...5 { _ = try robot.next() }
    #expect(try robot.next("again") == .yielded("Hello Wukaka, How are you?"))
    for _ in 1...4 { #expect(try !robot.next().isDone) }
    #expect(try robot.next("enough") == .returned("==talk done=="))
  }

  @Test func threeGeneratorsCountToNineInAFourth() {
    func three(from first: Int) -> TwoWayGenerator<Void, Int, Int> {
      TwoWayGenerator { yield in
        try yield(first)
        try yield(first + 1)
        return first + 2
      }
    }
    let count = Generator<Int> { yield in
      for first in [1, 4, 7] { try yield(yield(from: three(from: first))) }
    }
    #expect(Array(count) == Array(1...9))
  }

  // MARK: The queue of unread messages

  @Test func theMessageQueueIsReadAsTheMainQueueWantsThem() async throws {
    let log = Log()
    let background = DispatchQueue(label: "messages")
    let messages = AsyncGenerator<String>(on: background) { yield in
      defer { log.add("closed") }
      for number in 1... {
        #expect(background.isCurrent && !DispatchQueue.main.isCurrent)
        log.add("query \(number)")
        try yield("message \(number)")
      }
    }
    let other = Channel<Void>()
    try await Coroutine(on: .main) {
      // While it waits for a message, the main queue runs other work.
      Coroutine(on: .main) { try other.send(()) }
      for _ in 1...3 {
        let message = try messages.next()
        #expect(DispatchQueue.main.isCurrent)
        log.add("show \(message ?? "nothing")")
      }
      try other.receive()
    }.get()
    #expect(log.all == (1...3).flatMap { ["query \($0)", "show message \($0)"] })
    // The loop goes on at the same position, and no message was read in vain.
    for try await message in messages.prefix(2) { log.add("show \(message)") }
    #expect(log.all.dropFirst(6) == ["query 4", "show message 4", "query 5", "show message 5"])
    messages.cancel()
    try await messages.join()
    #expect(log.all.dropFirst(10) == ["closed"])
  }

  // MARK: The large file

  /// The items of a feed, one by one, out of a parser that pushes them.
  static func items(of stream: Feed, _ log: Log) -> Generator<FeedItem> {
    Generator(stackSize: 512 << 10) { yield in
      defer { log.add("the body has ended") }
      let parser = XMLParser(stream: stream)
      let delegate = ItemFinder { item in
        // A delegate can't throw, so it tells the parser to stop.
        do { try yield(item) } catch {
          log.add("\(type(of: error))")
          parser.abortParsing()
        }
      }
      parser.delegate = delegate
      log.add(parser.parse() ? "parsed to the end" : "parsed in part")
      withExtendedLifetime(delegate) {}
    }
  }

  @Test func pullParsingReadsNoMoreOfALargeFileThanWasPulled() {
    let log = Log()
    let feed = Feed(items: 200_000, log)
    func readThree() {
      var items: [FeedItem] = []
      var bytes = 0
      let generator = Self.items(of: feed, log)
      for item in generator {
        items.append(item)
        if items.count == 1 { bytes = feed.bytesRead }
        if items.count == 3 { break }
      }
      #expect(items == (1...3).map(FeedItem.init(number:)))
      // All of them came with the first part of the feed.
      #expect(bytes > 0 && bytes == feed.bytesRead)
      #expect(log.all == ["open"])
      withExtendedLifetime(generator) {}
    }
    readThree()
    // The parser reads in parts of its own size. The whole feed has 20 MB.
    #expect(feed.bytesRead <= 256 << 10)
    #expect(log.all == ["open", "GeneratorCancelled", "close", "parsed in part", "the body has ended"])
  }
  /// In a process of its own: the heap is the whole process's.
  @Test(.disabled(if: coroutine_sanitizers_active(), "a sanitizer has a heap of its own"))
  func pullParsingTakesAFractionOfTheMemoryOfReadingItAll() async {
    await #expect(processExitsWith: .success) {
      let log = Log()
      let count = 50_000
      let before = heapInUse()
      let generator = Self.items(of: Feed(items: count), log)
      for number in 1...3 { #expect(generator.next() == FeedItem(number: number)) }
      let some = heapInUse() - before
      generator.cancel()
      let all = Array(Self.items(of: Feed(items: count), log))
      let whole = heapInUse() - before
      #expect(all.count == count && all.last == FeedItem(number: count))
      #expect(log.all.suffix(2) == ["parsed to the end", "the body has ended"])
      #expect(some > 0 && some * 10 < whole)
    }
  }

  // MARK: The login

  enum Step: String, CaseIterable, Sendable { case login, query, download, makeEffect }
  struct Failed: Error, Equatable { let step: Step }

  /// A callback-style task, as the README writes them: a function that returns a function that takes the callback.
  static func task(
    _ step: Step, failing: Step?, _ log: Log
  ) -> (@escaping @Sendable (String?, (any Error)?) -> Void) -> Void {
    { callback in
      DispatchQueue.global().async {
        log.add(step.rawValue)
        if step == failing { callback(nil, Failed(step: step)) } else { callback("result of \(step)", nil) }
      }
    }
  }

  /// The flow, and a channel that gets an element each time the flow's end runs.
  static func login(failing: Step?, _ log: Log) -> (flow: Coroutine<Void, any Error>, hidden: Channel<Bool>) {
    let hidden = Channel<Bool>(capacity: .unbounded)
    let flow = Coroutine(on: .main) {
      log.add("show progress")
      for step in Step.allCases {
        let result = try awaitCallback(task(step, failing: failing, log))
        #expect(result == "result of \(step)")
        #expect(DispatchQueue.main.isCurrent)
      }
      log.add("user info")
    }.finally {
      log.add("hide progress")
      _ = hidden.trySend(DispatchQueue.main.isCurrent)
    }
    return (flow, hidden)
  }

  @Test(arguments: [nil] + Step.allCases)
  func theLoginFlowEndsWithItsFirstErrorAndHidesTheProgressOnce(_ failing: Step?) async throws {
    let log = Log()
    let (login, hidden) = Self.login(failing: failing, log)
    if let failing {
      await #expect(throws: Failed(step: failing)) { try await login.get() }
    } else {
      try await login.get()
    }
    #expect(try await hidden.receive())
    let done = Step.allCases.prefix { $0 != failing } + [failing].compactMap { $0 }
    let end = failing == nil ? ["user info"] : []
    #expect(log.all == ["show progress"] + done.map(\.rawValue) + end + ["hide progress"])
    await Self.nothingMoreComes(to: hidden)
  }

  @MainActor @Test func cancelledBeforeItBeganTheLoginFlowOnlyHidesTheProgress() async throws {
    let log = Log()
    let (login, hidden) = Self.login(failing: nil, log)
    login.cancel()  // this runs on the main queue, on which the flow has not had a turn
    await #expect(throws: CancellationError.self) { try await login.get() }
    #expect(try await hidden.receive())
    #expect(log.all == ["hide progress"])
    await Self.nothingMoreComes(to: hidden)
  }

  /// When this returns, work that would run on the main queue late, or twice, has had its turn.
  static func nothingMoreComes(to hidden: Channel<Bool>) async {
    await withCheckedContinuation { turn in DispatchQueue.main.async { turn.resume() } }
    #expect(hidden.isEmpty)
  }
}

/// An item of a feed.
struct FeedItem: Equatable {
  var title = ""
  var link = ""
}

extension FeedItem {
  init(number: Int) {
    self.init(title: "Title of the article with number \(number)", link: "https://example.org/\(number)")
  }
}

/// A feed that is made while it is read.
final class Feed: InputStream {
  private let count: Int
  private let log: Log?
  private var made = 0
  /// What was made and not yet read.
  private var rest = Array("<feed>".utf8)
  private(set) var bytesRead = 0
  private var status = Stream.Status.notOpen

  init(items count: Int, _ log: Log? = nil) {
    self.count = count
    self.log = log
    super.init(data: Data())
  }

  override func read(_ buffer: UnsafeMutablePointer<UInt8>, maxLength: Int) -> Int {
    while rest.count < maxLength, made < count {
      made += 1
      let item = FeedItem(number: made)
      rest += "<item><title>\(item.title)</title><link>\(item.link)</link></item>\n".utf8
      if made == count { rest += "</feed>".utf8 }
    }
    let size = min(maxLength, rest.count)
    for index in 0..<size { buffer[index] = rest[index] }
    rest.removeFirst(size)
    bytesRead += size
    if size == 0 { status = .atEnd }
    return size
  }

  override func open() {
    log?.add("open")
    status = .open
  }
  override func close() {
    log?.add("close")
    status = .closed
  }
  override var hasBytesAvailable: Bool { status == .open }
  override var streamStatus: Stream.Status { status }
  override var streamError: (any Error)? { nil }
}

private final class ItemFinder: NSObject, XMLParserDelegate {
  private let found: (FeedItem) -> Void
  private var item = FeedItem()
  private var text = ""

  init(found: @escaping (FeedItem) -> Void) { self.found = found }

  func parser(
    _ parser: XMLParser, didStartElement name: String, namespaceURI: String?, qualifiedName: String?,
    attributes: [String: String]
  ) {
    text = ""
  }

  func parser(_ parser: XMLParser, foundCharacters string: String) { text += string }

  func parser(_ parser: XMLParser, didEndElement name: String, namespaceURI: String?, qualifiedName: String?) {
    switch name {
    case "title": item.title = text
    case "link": item.link = text
    case "item":
      found(item)
      item = FeedItem()
    default: break
    }
  }
}
