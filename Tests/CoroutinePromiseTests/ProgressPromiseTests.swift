import CoroutineTestSupport
import Dispatch
import Foundation
import Testing

@testable import Coroutine

@Suite(.ownThreads) struct ProgressPromiseTests {
  struct Problem: Error {}
  private typealias Download = ProgressPromise<Double, String>

  private let queue = DispatchQueue(label: "serial")

  private func settle() async throws {
    for _ in 0..<4 { try await Coroutine(on: queue) {}.get() }
  }

  @Test func itIsEqualToItsCopiesAndHasItsName() {
    let (download, resolver) = Download.makePromise(name: "download")
    #expect(Set([download, download, Download.makePromise().promise]).count == 2)
    #expect("\(download)" == "promise \"download\": pending" && download.name == "download")
    resolver.fulfill("done")
    #expect("\(download)" == "\(download.promise)")
  }

  @Test func theProgressIsFollowedAndThenTheValueTaken() async throws {
    let log = Log()
    let (download, resolver) = Download.makePromise(name: "download")
    let reader = Coroutine(on: queue) { () -> String in
      for fraction in download.progress { log.add("\(fraction)") }
      return try download.get()
    }
    try await settle()
    for fraction in [0.25, 0.5] {
      #expect(resolver.report(fraction))
      try await settle()
    }
    #expect(download.latestProgress == 0.5)
    #expect(resolver.fulfill("data"))
    #expect(!resolver.report(1))
    #expect(try await reader.get() == "data")
    #expect(log.all == ["0.25", "0.5"])
    #expect(download.promise.value == "data")
  }

  @Test func itsValueHasTheFormsOfAPromise() async throws {
    let (progress, resolver) = ProgressPromise<Int, String>.makePromise()
    func block(_ time: Duration) throws -> String { try progress.getBlocking(timeout: time) }
    #expect(throws: TimeoutError.self) { try block(.zero) }
    await #expect(throws: TimeoutError.self) { try await progress.get(timeout: .zero) }
    let impatient = Coroutine { try progress.get(timeout: .zero) }
    await #expect(throws: TimeoutError.self) { try await impatient.get() }
    resolver.fulfill("done")
    func blockForEver() throws -> String { try progress.getBlocking() }
    #expect(try blockForEver() == "done" && block(.zero) == "done")
    #expect(try await progress.get(timeout: .zero) == "done")
  }

  @Test func aSlowReaderGetsTheNewestAndNeverMissesTheLast() async throws {
    let log = Log()
    let (download, resolver) = Download.makePromise()
    let gate = Channel<Void>()
    let reader = Coroutine(on: queue) {
      for fraction in download.progress {
        log.add("\(fraction)")
        try gate.receive()
      }
      log.add("end")
    }
    try await settle()
    resolver.report(0.1)
    try await settle()
    for fraction in [0.2, 0.3, 0.9] { resolver.report(fraction) }
    resolver.fulfill("data")
    try await gate.send(())
    try await gate.send(())
    try await reader.get()
    #expect(log.all == ["0.1", "0.9", "end"])
    // A reader that comes after the end also gets the last value.
    let late = Coroutine { Array(download.progress) }
    #expect(try await late.get() == [0.9])
  }

  @Test func everyReportIsKeptWhereAskedFor() async throws {
    let (download, resolver) = Download.makePromise(keeping: .all)
    for number in 0..<5 { resolver.report(Double(number)) }
    let first = Coroutine { Array(download.progress) }
    resolver.report(5)
    resolver.reject(Problem())
    #expect(try await first.get() == [0, 1, 2, 3, 4, 5])
    let second = Coroutine { Array(download.progress.prefix(2)) }
    #expect(try await second.get() == [0, 1])
    await #expect(throws: Problem.self) { try await download.get() }
  }

  @Test func leavingTheLoopEarlyIsFine() async throws {
    let (download, resolver) = Download.makePromise()
    let reader = Coroutine { () -> String in
      for fraction in download.progress where fraction > 0.4 { break }
      return try download.get()
    }
    resolver.report(0.5)
    resolver.report(0.6)
    resolver.fulfill("data")
    #expect(try await reader.get() == "data")
  }

  @Test func aCancelEndsTheProgressAndStopsTheWork() async throws {
    let log = Log()
    let download = Download { resolver in
      resolver.report(0.5)
      resolver.onCancel { log.add("not cancelled") }
    }
    await #expect(throws: PromiseAbandoned.self) { try await download.get() }

    let (other, resolver) = Download.makePromise()
    resolver.onCancel { log.add("stopped \(resolver.isCancelled) \(resolver.report(1))") }
    let reader = Coroutine(on: queue) {
      for fraction in other.progress { log.add("\(fraction)") }
      log.add("end")
    }
    try await settle()
    #expect(other.cancel())
    try await reader.get()
    await #expect(throws: CancellationError.self) { try await other.get() }
    #expect(log.all == ["stopped true false", "end"])
  }

  @Test func aCancelledReaderStopsAndLeavesThePromiseAlone() async throws {
    let log = Log()
    let (download, resolver) = Download.makePromise()
    let reader = Coroutine(on: queue) {
      for fraction in download.progress { log.add("\(fraction)") }
      log.add("stopped")
      try Coroutine.checkCancellation()
    }
    try await settle()
    reader.cancel()
    await #expect(throws: CancellationError.self) { try await reader.get() }
    #expect(log.all == ["stopped"] && download.promise.isPending)
    resolver.fulfill("data")
  }

  @Test func workInACoroutineMayWaitAndIsCancelledWithIt() async throws {
    let fractions = Channel<Double>()
    let download = Download(on: queue, keeping: .all) { resolver in
      for _ in 0..<2 { resolver.report(try fractions.receive()) }
      resolver.fulfill("data")
    }
    try await fractions.send(0.5)
    try await fractions.send(1)
    let length = Promise(value: 4)
    let (data, count) = try await values(of: download, length)
    #expect(data.count == count)
    #expect(try await Coroutine { Array(download.progress) }.get() == [0.5, 1])

    let log = Log()
    let stopped = Download(on: queue) { resolver in
      defer { log.add("unwound, \(resolver.isCancelled)") }
      resolver.report(try fractions.receive())
    }
    try await settle()
    #expect(stopped.cancel())
    try await settle()
    #expect(log.all == ["unwound, true"])
    let failing = Download(on: queue) { _ in throw Problem() }
    await #expect(throws: Problem.self) { try await failing.get() }
  }

  @Test func itIsAnAsyncSequenceToo() async throws {
    let (download, resolver) = Download.makePromise(keeping: .all)
    let reader = Task {
      var seen: [Double] = []
      for await fraction in download { seen.append(fraction) }
      return seen
    }
    for number in 1...3 { resolver.report(Double(number)) }
    resolver.fulfill("data")
    #expect(await reader.value == [1, 2, 3])
    let (endless, kept) = Download.makePromise()
    let cancelled = Task { for await _ in endless {} }
    cancelled.cancel()
    await cancelled.value
    kept.fulfill("data")
  }

  @Test func aFoundationProgressIsReportedAndCancelled() async throws {
    let work = Progress(totalUnitCount: 4)
    let (download, resolver) = Download.makePromise(keeping: .all)
    resolver.onCancel { work.cancel() }
    let reader = Coroutine { Array(download.progress) }
    for _ in 0..<3 {
      work.completedUnitCount += 1
      resolver.report(work.fractionCompleted)
    }
    download.cancel()
    #expect(work.isCancelled)
    #expect(try await reader.get() == [0.25, 0.5, 0.75])
  }

  @Test func manyReadersAndAWriterOnManyThreadsNeverGoBackOrHang() async throws {
    let (promise, resolver) = ProgressPromise<Int, Int>.makePromise()
    let readers = (0..<8).map { _ in
      Coroutine { () -> Int in
        var last = -1
        for number in promise.progress {
          guard number > last else { return -1 }
          last = number
        }
        return last
      }
    }
    let writer = Coroutine {
      for number in 0...2_000 { resolver.report(number) }
      resolver.fulfill(0)
    }
    try await writer.get()
    for reader in readers { #expect(try await reader.get() == 2_000) }
  }

}
