// SPDX-License-Identifier: Apache-2.0

/// What the generators yield. Each kind of element is made from a number and contains it, so that every loop has a
/// sum to check. Each kind travels from the body to the consumer in another way.
protocol Element: Sendable {
  /// The number that it was made from.
  var number: Int { get }
}

/// Fits into the word of a switch.
extension Int: Element {
  var number: Int { self }
}

/// One reference to count.
final class Box: Element {
  let number: Int

  init(_ number: Int) {
    self.number = number
  }
}

/// Five words: too many for registers.
struct Record40: Element {
  var number: Int
  var others: (Int, Int, Int, Int) = (1, 2, 3, 4)
}

/// Two words, and a reference to count if the text is longer than 15 bytes and on the heap, as these are.
extension String: Element {
  var number: Int { utf8.count }
}

/// A source of elements. The same source feeds a generator's body and the iterators beside it.
protocol Source: Sendable {
  associatedtype Made: Element
  /// The element at that index.
  func element(_ index: Int) -> Made
  /// The sum of the numbers of that many elements.
  func sum(_ count: Int) -> Int
}

/// The numbers from 0 on.
struct Numbers: Source {
  @inline(__always) func element(_ index: Int) -> Int { index }
  func sum(_ count: Int) -> Int { count * (count - 1) / 2 }
}

/// A new object each time, which the consumer releases. The allocation is part of the figure.
struct FreshBoxes: Source {
  @inline(__always) func element(_ index: Int) -> Box { Box(index) }
  func sum(_ count: Int) -> Int { count * (count - 1) / 2 }
}

/// The same object each time.
struct SharedBox: Source {
  let box = Box(7)
  @inline(__always) func element(_ index: Int) -> Box { box }
  func sum(_ count: Int) -> Int { 7 * count }
}

struct Records40: Source {
  @inline(__always) func element(_ index: Int) -> Record40 { Record40(number: index) }
  func sum(_ count: Int) -> Int { count * (count - 1) / 2 }
}

struct SharedText: Source {
  let text = String(repeating: "text ", count: 8)
  @inline(__always) func element(_ index: Int) -> String { text }
  func sum(_ count: Int) -> Int { text.utf8.count * count }
}
