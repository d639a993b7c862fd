// SPDX-License-Identifier: Apache-2.0

/// First in, first out; constant time on average.
struct FIFOQueue<Element> {
  private var elements: [Element?] = []
  private var first = 0

  /// An empty queue gives back the memory for more elements than these: it would keep that as long as it lives.
  private static var keptCapacity: Int { 1024 }

  var isEmpty: Bool { first == elements.count }

  var count: Int { elements.count - first }

  /// For how many elements it has memory. For tests.
  var capacity: Int { elements.capacity }

  mutating func append(_ element: Element) {
    elements.append(element)
  }

  /// Puts one back that was taken out.
  mutating func prepend(_ element: Element) {
    if first > 0 {
      first -= 1
      elements[first] = element
    } else {
      elements.insert(element, at: 0)
    }
  }

  mutating func popFirst() -> Element? {
    guard !isEmpty else { return nil }
    let element = elements[first].take()
    first += 1
    if isEmpty, elements.capacity > Self.keptCapacity {
      (elements, first) = ([], 0)
    } else if first >= 32, first * 2 >= elements.count {
      // Moves no more than have been taken out.
      elements.removeFirst(first)
      first = 0
    }
    return element
  }

  /// Returns the removed ones. The others keep their order. Linear in the number of elements.
  mutating func removeAll(where isUnwanted: (Element) -> Bool) -> [Element] {
    var (kept, removed): ([Element?], [Element]) = ([], [])
    for element in elements[first...].lazy.compactMap(\.self) {
      if isUnwanted(element) { removed.append(element) } else { kept.append(element) }
    }
    (elements, first) = (kept, 0)
    return removed
  }
}
