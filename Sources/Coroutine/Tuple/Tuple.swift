// SPDX-License-Identifier: Apache-2.0

/// Values of any types, `nil` among them, whose number and types are known at run time only.
///
/// ```swift
/// let tuple = Tuple(nil, 10, "abc")
/// tuple[1] as? Int                                  // 10
/// tuple[7] == nil                                   // true: there is nothing, as at 0
///
/// let (_, number, text) = tuple.unpacked(as: Any.self, Int.self, String.self)
///
/// var first: String?, second: Int?
/// tuple.unpack(into: &first, &second)               // the third value goes nowhere
/// ```
///
/// Where the types are known when the program is written, which is nearly always, a plain Swift tuple is better: it is
/// checked by the compiler, has names, and costs nothing. A coroutine may return one, a promise may be fulfilled with
/// one, and `values(of:)` makes one of several promises:
///
/// ```swift
/// let file: Promise<(path: String, data: Data?)> = load(path)
/// let (path, data) = try file.get()
/// ```
///
/// This one is for values whose types are known only when they are looked at: the fields of a message, the results of a
/// plug-in, code that comes from `co_tuple`. A `nil` is one, whatever it was the `nil` of.
public struct Tuple: Sendable {
  private let values: [(any Sendable)?]

  /// A tuple of the values, in their order. An array alone makes one of its elements; among others it is a value.
  public init(_ values: (any Sendable)?...) {
    self.init(values)
  }

  /// A tuple of an array's elements.
  public init(_ values: [(any Sendable)?]) {
    self.values = values.map { $0.flatMap(flattened) }
  }

  /// A tuple of an array's elements.
  public init<Element: Sendable>(_ values: [Element]) {
    // By way of `any Sendable`: the elements may be optional themselves.
    self.values = values.map { flattened($0) }
  }

  /// How many values there are, `nil`s among them.
  public var count: Int { values.count }

  /// The value at a position, counted from 0; `nil` if it is `nil`, or if there is no such position. Constant time.
  public subscript(position: Int) -> (any Sendable)? {
    values.indices.contains(position) ? values[position] : nil
  }
}

extension Tuple: Sequence {
  public func makeIterator() -> IndexingIterator<[(any Sendable)?]> { values.makeIterator() }
}

extension Tuple: CustomStringConvertible {
  public var description: String {
    "(" + values.map { value in value.map { "\($0)" } ?? "nil" }.joined(separator: ", ") + ")"
  }
}

/// Optionals, in the eyes of code that has a value of no known type.
private protocol OptionalValue {
  var wrapped: Any? { get }
}

extension Optional: OptionalValue {
  fileprivate var wrapped: Any? { self.map { $0 as Any } }
}

/// The value inside of as many optionals as there are.
private func flattened(_ value: any Sendable) -> (any Sendable)? {
  guard let optional = value as? any OptionalValue else { return value }
  // What a sendable optional holds is sendable: the protocol leaves no trace, so that no cast could find it again.
  return optional.wrapped.flatMap { flattened(unsafeBitCast($0 as Any, to: (any Sendable).self)) }
}
