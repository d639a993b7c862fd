// SPDX-License-Identifier: Apache-2.0

// The operators that take two sequences, for three: by two of those, whose pairs are taken apart. What they make is opaque: as
// what those of two make, it has the `map` of any sequence.

/// The elements of three sequences, in a coroutine, as they come: see `merge(_:_:)`.
///
/// ```swift
/// for event in merge(keys.received, clicks.received, timers.received) { handle(event) }
/// ```
///
/// Ends when all have ended, and when the caller is cancelled.
public func merge<First: SelectableSequence, Second: SelectableSequence, Third: SelectableSequence>(
  _ first: First, _ second: Second, _ third: Third
) -> MergedElements<MergedElements<First, Second>, Third>
where First.Element == Second.Element, Second.Element == Third.Element {
  merge(merge(first, second), third)
}

/// The elements of three sequences, in a coroutine, the first with the first ones and so on: see `zip(_:_:)`.
///
/// ```swift
/// for (question, answer, mark) in zip(questions.received, answers.received, marks.received) { note(question, answer, mark) }
/// ```
///
/// Ends as soon as one of them has ended, and when the caller is cancelled.
public func zip<First: SelectableSequence, Second: SelectableSequence, Third: SelectableSequence>(
  _ first: First, _ second: Second, _ third: Third
) -> some SelectableSequence<(First.Element, Second.Element, Third.Element)> {
  zip(zip(first, second), third).lazy.map { ($0.0.0, $0.0.1, $0.1) }
}

/// The latest elements of three sequences, in a coroutine, each time that one of them has a new one: see `combineLatest(_:_:)`.
///
/// ```swift
/// for (size, theme, text) in combineLatest(sizes.received, themes.received, texts.received) { redraw(size, theme, text) }
/// ```
///
/// The first triple comes when all have had an element. Ends when all have ended, or one of them without an element; and when the
/// caller is cancelled.
public func combineLatest<First: SelectableSequence, Second: SelectableSequence, Third: SelectableSequence>(
  _ first: First, _ second: Second, _ third: Third
) -> some SelectableSequence<(First.Element, Second.Element, Third.Element)> {
  combineLatest(combineLatest(first, second), third).lazy.map { ($0.0.0, $0.0.1, $0.1) }
}
