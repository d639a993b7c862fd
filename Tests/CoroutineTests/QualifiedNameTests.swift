import Coroutine
import CoroutineTestSupport
import Testing

/// `Coroutine::values(of:)`, as the pages advise: in a type that has a member of the same name, Swift finds only that member.
@Suite(.ownThreads) struct QualifiedNameTests {
  private struct Desk: Sendable {
    func values(of name: String) -> String { "the desk's \(name)" }
    func results(of name: String) -> String { "the desk's \(name)" }
    func select(_ name: String) -> String { "the desk's \(name)" }
    func on(_ name: String) -> String { "the desk's \(name)" }
    func blocking(_ name: String) -> String { "the desk's \(name)" }

    func ask() throws -> [Int] {
      let (first, second) = try Coroutine::values(of: Promise(value: 1), Coroutine { 2 })
      let more = try Coroutine::values(of: [Promise(value: 3), Promise(value: 4)])
      let results = try Coroutine::results(of: [Promise(value: 8)])
      let chosen = try Coroutine::select { Promise(value: 5).onValue { $0 } }
      let moved = Coroutine::on(.pool) { 6 }
      return try [first, second] + more + [chosen, moved, Coroutine::blocking { 7 }] + results.map { try $0.get() }
    }

    func askAsync() async throws -> [Int] {
      let (first, second) = try await Coroutine::values(of: Promise(value: 1), Coroutine { 2 })
      return try await [first, second, Coroutine::blocking { 3 }]
    }

    func askItself() -> [String] {
      [values(of: "values"), results(of: "results"), select("choice"), on("place"), blocking("wait")]
    }
  }

  @Test func aTypeWithMembersOfTheSameNamesNamesTheModule() async throws {
    let desk = Desk()
    #expect(try await Coroutine { try desk.ask() }.get() == [1, 2, 3, 4, 5, 6, 7, 8])
    #expect(try await desk.askAsync() == [1, 2, 3])
    #expect(desk.askItself().allSatisfy { $0.hasPrefix("the desk's") })
  }
}
