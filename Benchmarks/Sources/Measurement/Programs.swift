// SPDX-License-Identifier: Apache-2.0

import Foundation

/// Where the measured programs are.
public struct Programs {
  private let folder: URL

  /// - Parameter folder: has `runtime-ASM`, `runtime-Boost`, `runtime-Ucontext`, and the peers under their names, as
  ///   far as they could be built.
  public init(in folder: URL) {
    self.folder = folder
  }

  /// `nil` if it could not be built.
  func file(of program: Program, backend: String) -> URL? {
    let name = program == .runtime ? "runtime-\(backend)" : program.rawValue
    let file = folder.appendingPathComponent(name)
    return FileManager.default.isExecutableFile(atPath: file.path) ? file : nil
  }
}
