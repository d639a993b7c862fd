import Coroutine
import CoroutineTestSupport
import Dispatch
import Testing

/// A handle and its copies are equal for a set, for a dictionary, and when they are printed.
@Suite(.ownThreads) struct HandlesTests {
  /// How many handles there are, and how many a set keeps of two copies of each.
  private func distinct<Handle: Hashable>(_ handles: Handle...) -> (Int, Int) {
    (handles.count, Set(handles + handles).count)
  }

  @Test func copiesAreEqualAndOthersThatLookTheSameAreNot() async throws {
    let coroutines = (Coroutine { 1 }, Coroutine { 1 })
    #expect(distinct(coroutines.0, coroutines.1) == (2, 2))
    #expect(coroutines.0 != coroutines.1)
    let copy = coroutines.0
    #expect(copy == coroutines.0 && copy.id == coroutines.0.id)
    let channels = (Channel<Int>(name: "a"), Channel<Int>(name: "a"))
    #expect(distinct(channels.0, channels.1) == (2, 2))
    let promises = (Promise(value: 1), Promise(value: 1))
    #expect(distinct(promises.0, promises.1) == (2, 2))
    let actors = (MessageActor<Int>(name: "a") { _ in }, MessageActor<Int>(name: "a") { _ in })
    #expect(distinct(actors.0, actors.1) == (2, 2))
    let ends = (Channel<Int>.makeEnds(), Channel<Int>.makeEnds())
    #expect(distinct(ends.0.sender, ends.1.sender) == (2, 2))
    #expect(distinct(ends.0.receiver, ends.1.receiver) == (2, 2))
    struct Handle: ~Copyable {}
    let handles = Channel<Handle>()
    #expect([handles: 1][handles] == 1)
  }

  @Test func theySayWhatMessagesAndDumpsCallThem() async throws {
    let texts = try await Coroutine(on: DispatchQueue(label: "serial")) { () throws -> [String] in
      let jobs = Channel<Int>(capacity: .buffered(2), name: "jobs")
      let worker = Coroutine(name: "worker") { try jobs.receive() }
      Coroutine.yield()
      var texts = ["\(jobs)", "\(Channel<Int>())", "\(worker)".replacing("\(worker.id)", with: "n")]
      try jobs.send(1)
      try jobs.send(2)
      texts.append("\(jobs)")
      let (answer, resolver) = Promise<Int>.makePromise(name: "answer")
      texts.append("\(answer)")
      resolver.fulfill(1)
      texts.append("\(answer)")
      texts.append("\(Promise<Int>(error: CancellationError()))")
      let actor = MessageActor<Int>(name: "counter") { mailbox in for _ in mailbox {} }
      texts.append("\(actor)")
      actor.cancel()
      try actor.join()
      texts.append("\(actor)")
      return texts
    }.get()
    #expect(
      texts == [
        #"channel "jobs" (buffered 0/2, 1 receiver)"#, "an unnamed channel", #"coroutine n "worker""#,
        #"channel "jobs" (buffered 1/2)"#, #"promise "answer": pending"#, #"promise "answer": fulfilled"#,
        "an unnamed promise: cancelled", #"actor "counter""#, #"actor "counter": cancelled"#,
      ])
  }
}
