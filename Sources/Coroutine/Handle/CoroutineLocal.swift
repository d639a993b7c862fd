// SPDX-License-Identifier: Apache-2.0

/// A variable of which each coroutine has its own.
///
/// ```swift
/// enum Request {
///   static let retries = CoroutineLocal(0)
/// }
/// Request.retries.value += 1          // this coroutine's
/// ```
///
/// A coroutine begins with the default, and its values end with it, an actor's also when it starts again. Values that coroutines
/// are to inherit belong into a `TaskLocal`, which works in coroutines as it does in tasks.
public final class CoroutineLocal<Value: Sendable>: Sendable {
  private let defaultValue: Value

  /// A variable that has this value in each coroutine that has not set it.
  public init(_ defaultValue: Value) {
    self.defaultValue = defaultValue
  }

  /// The running coroutine's value. After the first write an entry in a dictionary.
  ///
  /// - Precondition: set inside a coroutine: traps elsewhere. Read outside of coroutines it gives the default.
  public var value: Value {
    get { (CoroutineCore.current?.locals?[ObjectIdentifier(self)] as? Entry)?.value ?? defaultValue }
    set {
      guard let core = CoroutineCore.current else {
        fatalError("a CoroutineLocal was set outside of coroutines, where none keeps its value: set it inside one")
      }
      let old = core.neededExtras._withUnsafeGuaranteedRef { extras in
        if extras.locals == nil { extras.locals = [:] }
        return extras.locals?.updateValue(Entry(variable: self, value: newValue), forKey: ObjectIdentifier(self))
      }
      // Its end may run code of the user's, which may set others: not inside the dictionary.
      withExtendedLifetime(old) {}
    }
  }

  /// Keeps the variable alive: another one at its address would find the value.
  private struct Entry: Sendable {
    let variable: CoroutineLocal
    let value: Value
  }
}
