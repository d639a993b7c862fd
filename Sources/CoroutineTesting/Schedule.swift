// SPDX-License-Identifier: Apache-2.0

/// The decisions of one run, by their numbers: only those that were not the first possibility. So a schedule that is like an
/// ordinary run says little, and the text of one that was shrunk is short.
///
///     "12:1 40:2"      the 13th decision took the second possibility, the 41st the third, all others the first
///
/// What the possibilities are depends on two options, which are a part of it: `calm`, `late` in front of the numbers.
struct Schedule: Equatable, Sendable {
  /// By decision: which possibility, if not the first.
  var choices: [Int: Int] = [:]
  var preemption = ExplorationOptions.Preemption.atOperations
  var time = ExplorationOptions.Time.whenIdle

  var text: String {
    var words: [String] = []
    if preemption == .atSuspensions { words.append(Self.calm) }
    if time == .anytime { words.append(Self.late) }
    words += choices.sorted { $0.key < $1.key }.map { "\($0.key):\($0.value)" }
    return words.joined(separator: " ")
  }

  init(_ choices: [Int: Int] = [:], _ options: ExplorationOptions = ExplorationOptions()) {
    self.choices = choices
    preemption = options.preemption
    time = options.time
  }

  /// - Returns: `nil` if it is not the text of one.
  init?(text: String) {
    for word in text.split(whereSeparator: \.isWhitespace) {
      if word == Self.calm {
        preemption = .atSuspensions
        continue
      }
      if word == Self.late {
        time = .anytime
        continue
      }
      let numbers = word.split(separator: ":", omittingEmptySubsequences: false).map { Int($0) }
      guard numbers.count == 2, let position = numbers[0], let choice = numbers[1], position >= 0, choice > 0,
        choices.updateValue(choice, forKey: position) == nil
      else { return nil }
    }
  }

  private static let calm = "calm"
  private static let late = "late"
}
