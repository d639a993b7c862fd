// SPDX-License-Identifier: Apache-2.0

/// Taking a tuple apart: into constants, by `unpacked(as:)`, or into variables that are there already, by `unpack(into:)`.
extension Tuple {
  /// The first values, each as the type that is named for it, to be taken apart by a pattern.
  ///
  /// ```swift
  /// let (path, data) = tuple.unpacked(as: String.self, Data.self)             // exactly, or fewer than there are
  /// let (_, _, name) = tuple.unpacked(as: Any.self, Any.self, String.self)    // one of them
  /// ```
  ///
  /// - Parameter type: the types of the values, one for each; `Any` is any type.
  /// - Returns: the values; `nil` where the tuple has `nil`, or ends before.
  /// - Precondition: each value is of its type: traps otherwise.
  public func unpacked<each Value>(as type: repeat (each Value).Type) -> (repeat (each Value)?) {
    var position = 0
    func next<Next>(as type: Next.Type) -> Next? {
      defer { position += 1 }
      return value(at: position)
    }
    return (repeat next(as: each type))
  }

  /// Assigns the first values to variables.
  ///
  /// ```swift
  /// var path: String?, data: Data?, error: (any Error)?
  /// tuple.unpack(into: &path, &data, &error)
  /// tuple.unpack(into: &Tuple.ignored, &data)         // skips a position
  /// ```
  ///
  /// Fewer variables than values: the others go nowhere. More: those behind the tuple's end stay as they are. A `nil` in
  /// the tuple is assigned. Up to eight variables: Swift has no `inout` parameter packs.
  ///
  /// - Precondition: each value is of its variable's type: traps otherwise.
  public func unpack<A>(into a: inout A?) {
    assign(0, to: &a)
  }

  /// Assigns the first two values to variables.
  public func unpack<A, B>(into a: inout A?, _ b: inout B?) {
    unpack(into: &a)
    assign(1, to: &b)
  }

  /// Assigns the first three values to variables.
  public func unpack<A, B, C>(into a: inout A?, _ b: inout B?, _ c: inout C?) {
    unpack(into: &a, &b)
    assign(2, to: &c)
  }

  /// Assigns the first four values to variables.
  public func unpack<A, B, C, D>(into a: inout A?, _ b: inout B?, _ c: inout C?, _ d: inout D?) {
    unpack(into: &a, &b, &c)
    assign(3, to: &d)
  }

  /// Assigns the first five values to variables.
  public func unpack<A, B, C, D, E>(
    into a: inout A?, _ b: inout B?, _ c: inout C?, _ d: inout D?, _ e: inout E?
  ) {
    unpack(into: &a, &b, &c, &d)
    assign(4, to: &e)
  }

  /// Assigns the first six values to variables.
  public func unpack<A, B, C, D, E, F>(
    into a: inout A?, _ b: inout B?, _ c: inout C?, _ d: inout D?, _ e: inout E?, _ f: inout F?
  ) {
    unpack(into: &a, &b, &c, &d, &e)
    assign(5, to: &f)
  }

  /// Assigns the first seven values to variables.
  public func unpack<A, B, C, D, E, F, G>(
    into a: inout A?, _ b: inout B?, _ c: inout C?, _ d: inout D?, _ e: inout E?, _ f: inout F?, _ g: inout G?
  ) {
    unpack(into: &a, &b, &c, &d, &e, &f)
    assign(6, to: &g)
  }

  /// Assigns the first eight values to variables.
  public func unpack<A, B, C, D, E, F, G, H>(
    into a: inout A?, _ b: inout B?, _ c: inout C?, _ d: inout D?, _ e: inout E?, _ f: inout F?, _ g: inout G?,
    _ h: inout H?
  ) {
    unpack(into: &a, &b, &c, &d, &e, &f, &g)
    assign(7, to: &h)
  }

  /// Where `unpack(into:)` puts a value that is not needed. Always `nil`.
  public static var ignored: (any Sendable)? {
    get { nil }
    set {}
  }

  private func assign<Value>(_ position: Int, to variable: inout Value?) {
    if position < count { variable = value(at: position) }
  }

  private func value<Value>(at position: Int) -> Value? {
    guard let value = self[position] else { return nil }
    let typed = value as? Value
    require(
      typed != nil,
      "the value at \(position) of the tuple \(self) is no \(Value.self) but a \(type(of: value)): unpack it as that, or "
        + "as Any")
    return typed
  }
}
