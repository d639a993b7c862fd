import Coroutine
import Glibc

/// A walk through a directory tree, by plain recursion.
///
/// Files are found many calls deep. With a generator the recursion stays as it is, and whoever wants the files still gets
/// them in a `for` loop, each when it is ready for the next:
///
/// ```swift
/// for file in walk.files { … }
/// ```
///
/// What is in the way does not end the walk: it is counted.
final class FileWalk {
  struct Obstacles: Sendable {
    /// Directories that could not be read: for lack of permission, or because they are gone.
    var unreadableDirectories = 0
    /// Symbolic links. They are not followed: the way could lead out of the tree, or round in a circle.
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

  /// The paths of all regular files, those of one directory in the order of their names. To be used once.
  var files: Generator<String> {
    // A path can be 2,048 levels deep: too much for the default stack. Pages that are not touched cost nothing.
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
        break  // a socket, a pipe, a device: reading one could wait for ever
      }
    }
  }

  /// What is in a directory, sorted; `nil` if it cannot be read.
  ///
  /// All of it at once, so that no directory is open while the walk is suspended.
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
    // What went away meanwhile, or has a name that is no text, counts as a file: an unreadable one.
    guard lstat(path, &status) == 0 else { return .file }
    switch status.st_mode & S_IFMT {
    case S_IFREG: return .file
    case S_IFDIR: return .directory
    case S_IFLNK: return .link
    default: return .other
    }
  }
}
