/// Programs that are always run: those that have found something once, a defect that was put in or one of the runtime's.
enum Corpus {
  static let recipes: [Recipe] = lines.map { Recipe($0.split(separator: " ").map(String.init))! }

  /// As behind `replay`.
  private static let lines = [
    // Defects that were put in.
    "seeded 0", "seeded 2", "seeded 3", "seeded 7", "seeded 11", "seeded 12", "seeded 13", "seeded 94",
    // A pipe whose event comes late from the poller's thread.
    "seeded 50765",
    // Short ones.
    "seeded 3 without=0,1,5,6,7", "pool 3 without=0,1,5,6,7", "seeded 7 without=1,2,4,6,7,9,12,13,14,15",
    "pool 7 without=1,2,4,6,7,9,12,13,14,15",
  ]
}
