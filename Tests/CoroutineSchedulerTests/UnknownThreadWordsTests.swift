import CCoroutine
import CoroutineTestSupport
import Foundation
import Synchronization
import Testing

@testable import Coroutine

/// Programs in which the Swift runtime keeps a thread's words at another place than usual: a program without Swift
/// has loaded it as part of a plugin, or their place is unknown. Each test has a process of its own.
@Suite(.ownThreads) struct UnknownThreadWordsTests {
  private enum Local {
    @TaskLocal static var number = 0
  }

  private static var bindingWords: [UInt32] { [task, locals, task | locals] }
  private static let task = UInt32(COROUTINE_THREAD_STATE_TASK.rawValue)
  private static let locals = UInt32(COROUTINE_THREAD_STATE_LOCALS.rawValue)
  private static let allWords = task | locals | UInt32(COROUTINE_THREAD_STATE_ACCESS.rawValue)

  /// Coroutines with different values, on several threads.
  private static func bindingsStayWithTheirCoroutines() async throws {
    let pool = ThreadPool(threads: 3)
    let coroutines = (1...20).map { number in
      Coroutine(on: pool) {
        guard Local.number == 0 else { return false }
        return try Local.$number.withValue(number) {
          // Its child inherits the value.
          let child = Coroutine { Local.number }
          for _ in 0..<50 {
            Coroutine.yield()
            guard Local.number == number else { return false }
          }
          return try child.get() == number
        }
      }
    }
    for coroutine in coroutines {
      let isRight = try await coroutine.get()
      #expect(isRight)
    }
    #expect(Local.number == 0)
  }

  @Test func wordsThatEachThreadHasElsewhereAreExchanged() async {
    await #expect(processExitsWith: .success) {
      coroutine_thread_state_forget_offsets()
      try await Self.bindingsStayWithTheirCoroutines()

      // A task's value is inherited. The task itself is hidden, and comes back.
      try await Local.$number.withValue(7) {
        let inner = Coroutine.immediate {
          let isHidden = withUnsafeCurrentTask { $0 == nil }
          Coroutine.yield()
          return isHidden && Local.number == 7
        }
        #expect(withUnsafeCurrentTask { $0 != nil })
        #expect(Local.number == 7)
        let isRight = try await inner.get()
        #expect(isRight)
      }

      // A generator's binding is not its consumer's at a yield.
      let generator = Generator<Int> { yield in
        try Local.$number.withValue(3) {
          for _ in 0..<3 { try yield(Local.number) }
        }
      }
      for number in generator {
        #expect(number == 3)
        #expect(Local.number == 0)
      }
    }
  }

  @Test func anAccessThatBeginsOnOneThreadEndsOnAnother() async {
    await #expect(processExitsWith: .success) {
      coroutine_thread_state_forget_offsets()
      try await Self.accessesStayWithTheirCoroutines()
    }
    await #expect(processExitsWith: .success) {
      coroutine_thread_state_forget(Self.allWords)
      try await Self.accessesStayWithTheirCoroutines()
    }
  }

  private static func accessesStayWithTheirCoroutines() async throws {
    final class Box {
      var numbers = [1, 2, 3]
    }
    let pool = ThreadPool(threads: 3)
    let coroutines = (1...20).map { _ in
      Coroutine(on: pool) {
        let box = Box()
        func wait(_ numbers: inout [Int]) {
          for _ in 0..<50 { Coroutine.yield() }
          numbers.append(4)
        }
        wait(&box.numbers)
        return box.numbers.count
      }
    }
    for coroutine in coroutines {
      let count = try await coroutine.get()
      #expect(count == 4)
    }
  }

  @Test func whereTheyAreNotKnownThatIsSaidOnceAndOthersWork() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardErrorContent]) {
      coroutine_thread_state_forget(Self.allWords)
      let pool = ThreadPool(threads: 2)
      let channel = Channel<Int>()
      let receiver = Coroutine(on: pool) { Array(channel.received) }
      let sender = Coroutine<Void, any Error>(on: pool) { () throws -> Void in
        for number in 1...100 {
          try channel.send(number)
          // A binding is allowed that ends before the next wait.
          Local.$number.withValue(number) { #expect(Local.number == number) }
        }
        channel.close()
      }
      try await sender.get()
      let received = try await receiver.get()
      #expect(received == Array(1...100))
    }
    #expect(standardError(of: result).components(separatedBy: "was not found").count == 2)
  }

  @Test(arguments: [locals, task | locals])
  func whereBindingsAreNotKnownASuspensionInsideOfOneTraps(_ words: UInt32) async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) { [words] in
      coroutine_thread_state_forget(words)
      try await Coroutine(on: ThreadPool(threads: 1)) {
        Local.$number.withValue(1) { Coroutine.yield() }
      }.get()
    }
    #expect(standardError(of: result).contains("a coroutine suspends inside of TaskLocal.withValue"))
  }

  /// Outside of tasks the task's word says nothing.
  @Test func whereOnlyTheTaskIsNotKnownBindingsStayWithTheirCoroutines() async {
    await #expect(processExitsWith: .success) {
      coroutine_thread_state_forget(Self.task)
      let pool = ThreadPool(threads: 3)
      let coroutines = (1...20).map { number in
        Coroutine(on: pool) {
          guard Local.number == 0 else { return false }
          return Local.$number.withValue(number) {
            (0..<50).allSatisfy { _ in
              Coroutine.yield()
              return Local.number == number
            }
          }
        }
      }
      for coroutine in coroutines {
        let isRight = try await coroutine.get()
        #expect(isRight)
      }
    }
  }

  @Test(arguments: bindingWords)
  func whereOneIsNotKnownAYieldInsideOfABindingTraps(_ words: UInt32) async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) { [words] in
      coroutine_thread_state_forget(words)
      let generator = Generator<Int> { yield in
        try Local.$number.withValue(3) { try yield(1) }
      }
      Local.$number.withValue(1) { _ = generator.next() }
    }
    #expect(standardError(of: result).contains("a generator yields inside of TaskLocal.withValue"))
  }

  @Test(arguments: bindingWords)
  func whereOneIsNotKnownOtherElementsTravel(_ words: UInt32) async {
    await #expect(processExitsWith: .success) { [words] in
      coroutine_thread_state_forget(words)
      let generator = Generator<Int> { yield in
        for number in 1...3 { try yield(Local.$number.withValue(number) { Local.number } + Local.number) }
      }
      // A consumer's value is the body's, too.
      let elements = Local.$number.withValue(10) { [generator.next(), generator.next()] }
      #expect(elements == [11, 12] && generator.next() == 3 && generator.next() == nil && Local.number == 0)
    }
  }

  @Test func accessesOfAnUnknownFormAreToldOf() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardErrorContent]) {
      coroutine_thread_state_forget(UInt32(COROUTINE_THREAD_STATE_ACCESS_LIST.rawValue))
      let answer = try await Coroutine { 1 }.get()
      #expect(answer == 1)
    }
    #expect(standardError(of: result).contains("a thread's accesses to variables was not found"))
  }
}
