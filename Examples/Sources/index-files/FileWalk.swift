import Coroutine
import Glibc

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
    guard let names = Self.names(in: directory) else {
      obstacles.unreadableDirectories += 1
      return
    }
    for name in names {
      let path = directory.hasSuffix("/") ? directory + name : directory + "/" + name
      switch Self.kind(of: path) {
      case .directory:
        try walk(path, yield)
      case .file:
        try onFile()
        try yield(path)
      case .link:
        obstacles.links += 1
      case .other:
        break  // a socket, a pipe, a device: a read could wait for ever
      }
    }
  }

  /// The names in a directory, sorted; `nil` if it cannot be read.
  ///
  /// All of them at once, so that no directory is open while the walk is suspended.
  private static func names(in directory: String) -> [String]? {
    guard let stream = opendir(directory) else { return nil }
    defer { closedir(stream) }
    var names: [String] = []
    while let entry = readdir(stream) {
      let name = withUnsafeBytes(of: &entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
      if name != "." && name != ".." { names.append(name) }
    }
    return names.sorted()
  }

  private enum Kind { case file, directory, link, other }

  private static func kind(of path: String) -> Kind {
    var status = stat()
    // A file that was removed meanwhile, or whose name is no text, counts as an unreadable file.
    guard lstat(path, &status) == 0 else { return .file }
    switch status.st_mode & S_IFMT {
    case S_IFREG: return .file
    case S_IFDIR: return .directory
    case S_IFLNK: return .link
    default: return .other
    }
  }
}
