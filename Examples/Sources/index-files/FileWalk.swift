import Coroutine
import CoroutineIO

/// A walk through a directory tree, by plain recursion.
///
/// Files are found many calls deep. With a generator the recursion stays as it is. The consumer still gets the files
/// in a `for` loop, each when it is ready for the next:
///
/// ```swift
/// for file in walk.files { … }
/// ```
///
/// An obstacle does not end the walk: it is counted.
final class FileWalk {
  struct Obstacles: Sendable {
    /// Directories that could not be read: without permission, or removed meanwhile.
    var unreadableDirectories = 0
    /// Symbolic links. They are not followed: they could lead out of the tree, or round in a circle.
    var links = 0
  }

  private(set) var obstacles = Obstacles()
  private let root: String
  private let onFile: () throws -> Void

  /// - Parameter onFile: called before each file is yielded, from inside the recursion.
  init(root: String, onFile: @escaping () throws -> Void = {}) {
    self.root = root
    self.onFile = onFile
  }

  /// The paths of all regular files. Those of one directory come in the order of their names. To be used once.
  var files: Generator<String> {
    // A path can be 2,048 levels deep: too much for the default stack. Pages that are never touched cost nothing.
    Generator(stackSize: 8 << 20) { yield in
      try self.walk(self.root, yield)
    }
  }

  private func walk(_ directory: String, _ yield: Generator<String>.Yield) throws {
    guard let entries = try Self.entries(of: directory) else {
      obstacles.unreadableDirectories += 1
      return
    }
    for entry in entries {
      let path = directory.hasSuffix("/") ? directory + entry.name : directory + "/" + entry.name
      switch entry.kind {
      case .folder:
        try walk(path, yield)
      case .file:
        try onFile()
        try yield(path)
      case .symbolicLink:
        obstacles.links += 1
      case .other:
        break  // a socket, a pipe, a device: a read could wait for ever
      }
    }
  }

  /// The entries of a directory, sorted; `nil` if it cannot be read.
  ///
  /// All of them at once, so that no directory is open while the walk is suspended.
  private static func entries(of directory: String) throws -> [Folder.Entry]? {
    let entries = Folder.entries(of: directory)
    var found: [Folder.Entry] = []
    do {
      while let entry = try entries.next() { found.append(entry) }
    } catch is IOError {
      return nil
    }
    return found.sorted { $0.name < $1.name }
  }
}
