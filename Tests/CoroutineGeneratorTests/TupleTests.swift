import Coroutine
import CoroutineTestSupport
import Testing

@Suite(.ownThreads) struct TupleTests {
  struct Problem: Error, Equatable {}

  @Test func itHoldsAnyValuesNilAmongThem() {
    let tuple = Tuple(nil, 10, "abc", [1, 2], Problem())
    #expect(tuple.count == 5)
    #expect(tuple[0] == nil)
    #expect(tuple[1] as? Int == 10)
    #expect(tuple[2] as? String == "abc")
    #expect(tuple[3] as? [Int] == [1, 2])
    #expect(tuple[4] as? Problem == Problem())
  }

  @Test func aPositionThatDoesNotExistHasNil() {
    let tuple = Tuple(1, 2)
    #expect(tuple[2] == nil)
    #expect(tuple[-1] == nil)
    #expect(tuple[.max] == nil)
    #expect(Tuple()[0] == nil)
    #expect(Tuple().count == 0)
  }

  @Test func aVariableThatIsNilIsNil() {
    let missing: Int? = nil
    let present: Int? = 7
    let tuple = Tuple(missing, present)
    #expect(tuple[0] == nil)
    #expect(tuple[1] as? Int == 7)
  }

  @Test func itIsMadeOfAnArrayAndIsASequence() {
    let tuple = Tuple(["a", nil, "c"])
    #expect(tuple.map { $0 as? String } == ["a", nil, "c"])
    #expect("\(tuple)" == "(a, nil, c)")
  }

  @Test func anArrayOfAnyTypeIsOneOfElements() {
    let numbers = [1, 2]
    let missing: [Int?] = [1, nil]
    let nothing: [String] = []
    #expect(Tuple(numbers).map { $0 as? Int } == [1, 2])
    #expect(Tuple(missing).map { $0 as? Int } == [1, nil])
    #expect(Tuple(missing)[1] == nil)
    #expect(Tuple(nothing).count == 0)
    // With other values beside it, the array is one value.
    #expect(Tuple(numbers, "a")[0] as? [Int] == [1, 2])
  }

  @Test func aNilIsNilWhateverItsTypeWas() {
    func tuple<Value: Sendable>(of value: Value) -> Tuple { Tuple(value, 1) }
    let nested: Int?? = .some(nil)
    #expect(tuple(of: nil as Int?)[0] == nil)
    #expect(Tuple(nested)[0] == nil)
    #expect("\(tuple(of: nested))" == "(nil, 1)")
    var number: Int? = 7
    tuple(of: nil as Int?).unpack(into: &number)
    #expect(number == nil)
    #expect(tuple(of: 7 as Int??)[0] as? Int == 7)
    #expect("\(tuple(of: 7 as Int??))" == "(7, 1)")
  }

  @Test func itIsUnpackedExactly() {
    var first: Int? = 1
    var number: Int?
    var text: String?
    Tuple(nil, 10, "abc").unpack(into: &first, &number, &text)
    #expect(first == nil)
    #expect(number == 10)
    #expect(text == "abc")
  }

  @Test func itIsUnpackedIntoFewer() {
    var first: Int?
    var number: Int?
    Tuple(1, 10, "abc", 10, "abc").unpack(into: &first, &number)
    #expect(first == 1)
    #expect(number == 10)
  }

  @Test func whatIsBehindTheEndStaysAsItIs() {
    var number: Int?
    var text: String?
    var untouched: Int? = 5
    var nilBefore: String?
    Tuple(10, "abc").unpack(into: &number, &text, &untouched, &nilBefore)
    #expect(number == 10)
    #expect(text == "abc")
    #expect(untouched == 5)
    #expect(nilBefore == nil)
    Tuple().unpack(into: &number)
    #expect(number == 10)
  }

  @Test func oneVariableMayBeUnpackedIntoTwice() {
    // As in the documents: the targets behind the end are those that were assigned before.
    var first: Int?
    var number: Int?
    var text: String?
    let tuple = Tuple(nil, 10, "abc")
    tuple.unpack(into: &first, &number, &text)
    tuple.unpack(into: &Tuple.ignored, &Tuple.ignored, &Tuple.ignored, &number, &text)
    #expect(number == 10)
    #expect(text == "abc")
  }

  @Test func positionsAreSkipped() {
    var text: String?
    Tuple(nil, 10, "abc").unpack(into: &Tuple.ignored, &Tuple.ignored, &text)
    #expect(text == "abc")
    #expect(Tuple.ignored == nil)
  }

  @Test func itIsUnpackedIntoUpToEight() {
    var all: (Int?, Int?, Int?, Int?, Int?, Int?, Int?, Int?)
    Tuple(1, 2, 3, 4, 5, 6, 7, 8, 9).unpack(
      into: &all.0, &all.1, &all.2, &all.3, &all.4, &all.5, &all.6, &all.7)
    #expect([all.0, all.1, all.2, all.3, all.4, all.5, all.6, all.7] == [1, 2, 3, 4, 5, 6, 7, 8])
  }

  @Test func propertiesAndElementsAreTargetsToo() {
    final class Owner { var name: String?, numbers: [Int?] = [nil, nil] }
    let owner = Owner()
    Tuple("a", 1, 2).unpack(into: &owner.name, &owner.numbers[0])
    Tuple(2).unpack(into: &owner.numbers[1])
    #expect(owner.name == "a")
    #expect(owner.numbers == [1, 2])
  }

  @Test func aPatternTakesItApart() {
    let tuple = Tuple(nil, 10, "abc")
    let (first, number, text) = tuple.unpacked(as: Any.self, Int.self, String.self)
    #expect(first == nil)
    #expect(number == 10)
    #expect(text == "abc")
    let (_, _, skippedTo) = tuple.unpacked(as: Any.self, Any.self, String.self)
    #expect(skippedTo == "abc")
    let (_, fewer) = tuple.unpacked(as: Int.self, Int.self)
    #expect(fewer == 10)
    let (_, _, _, behindTheEnd) = tuple.unpacked(as: Any.self, Any.self, Any.self, Int.self)
    #expect(behindTheEnd == nil)
  }

  @Test func aValueOfAnotherTypeTraps() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      var text: String?
      Tuple(1, 2).unpack(into: &Tuple.ignored, &text)
    }
    #expect(standardError(of: result).contains("the value at 1 of the tuple (1, 2) is no String but a Int"))
  }

  @Test func aPromiseBringsSeveralValues() async throws {
    @Sendable func load(_ path: String) -> Promise<(path: String, content: [UInt8]?, error: Problem?)> {
      Promise(on: .pool) { resolver in
        resolver.fulfill(path == "/exists" ? (path, [1, 2, 3], nil) : (path, nil, Problem()))
      }
    }
    try await Coroutine {
      let (path, content, error) = try load("/exists").get()
      #expect(path == "/exists")
      #expect(content == [1, 2, 3])
      #expect(error == nil)
      let (_, nothing, problem) = try load("/missing").get()
      #expect(nothing == nil)
      #expect(problem == Problem())
    }.get()
  }

  @Test func aTupleCrossesThreads() async throws {
    let promise = Promise<Tuple>(on: .pool) { resolver in resolver.fulfill(Tuple("/path", nil, 3)) }
    try await Coroutine {
      var path: String?
      var size: Int?
      try promise.get().unpack(into: &path, &Tuple.ignored, &size)
      #expect(path == "/path")
      #expect(size == 3)
    }.get()
  }
}
