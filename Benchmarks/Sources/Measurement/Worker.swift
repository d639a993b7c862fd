// SPDX-License-Identifier: Apache-2.0

import Foundation
import Glibc

/// A running program that runs loops on request, line by line. The runtime's builds and the peers are all such
/// programs, so that they take turns within one comparison. While one runs, the others wait for their next line.
///
/// A request is `run`, a workload's name, a subject's, a number of operations, separated by tabs. The answer is the
/// time in nanoseconds, what was computed, and, where memory is measured, by how many bytes the process grew. The
/// runtime's own program (see `Server`) also answers `allocations` and `path`. An answer that begins with `error`
/// says what is wrong.
final class Worker {
  private let process = Process()
  private let requests = Pipe()
  private let answers = Pipe()
  private let name: String
  private var unread: [UInt8] = []

  /// Starts the program, confined to `cores` processors.
  ///
  /// - Throws: `Failure` if there are not that many.
  init(_ program: URL, cores: Int) throws {
    name = "\(program.lastPathComponent) on \(cores == 1 ? "one core" : "\(cores) cores")"
    process.executableURL = program
    process.arguments = ["--serve"]
    process.standardInput = requests
    process.standardOutput = answers
    // A new process inherits the processors of the thread that starts it.
    try Processors.confine(to: cores)
    try process.run()
    try Processors.confine(to: 1)
  }

  /// Ends the program, which exits by itself when there are no more requests.
  func end() {
    try? requests.fileHandleForWriting.close()
    process.waitUntilExit()
  }

  /// Has the program run that many operations of a subject.
  func read(_ workload: Workload, _ subject: Subject, _ operations: Int) throws -> Reading {
    let answer = try ask(["run", workload.name, subject.key, String(operations)])
    guard answer.count >= 2, let nanoseconds = Double(answer[0]), let computed = Int(answer[1]) else {
      throw Failure("\(name) does not understand \(workload.name), \(subject.key): \(answer)")
    }
    let expected = subject.expecting(operations)
    guard computed == expected else {
      throw Failure(
        "\(name): \(workload.name), \(subject.key): \(operations) operations computed \(computed) instead of \(expected)"
      )
    }
    return Reading(nanoseconds: nanoseconds, computed: computed, bytes: answer.count > 2 ? Int(answer[2]) : nil)
  }

  func allocations(_ workload: Workload, _ subject: Subject) throws -> Double? {
    Double(try ask(["allocations", workload.name, subject.key])[0])
  }

  func path(_ workload: Workload, _ subject: Subject) throws -> Path? {
    let answer = try ask(["path", workload.name, subject.key])[0]
    return try JSONDecoder().decode(Path?.self, from: Data(answer.utf8))
  }

  private func ask(_ words: [String]) throws -> [String] {
    try requests.fileHandleForWriting.write(contentsOf: Data((words.joined(separator: "\t") + "\n").utf8))
    let answer = try line().split(separator: "\t", omittingEmptySubsequences: false).map(String.init)
    if answer.first == "error" { throw Failure("\(name): \(answer.dropFirst().joined(separator: " "))") }
    return answer
  }

  /// No loop takes this long, by far: one that does hangs.
  private static let limit: CInt = 300_000

  private func line() throws -> String {
    let descriptor = answers.fileHandleForReading.fileDescriptor
    while true {
      if let end = unread.firstIndex(of: UInt8(ascii: "\n")) {
        let line = String(decoding: unread[..<end], as: UTF8.self)
        unread.removeSubrange(...end)
        return line
      }
      var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
      guard poll(&waiting, 1, Self.limit) > 0 else {
        process.terminate()
        throw Failure("\(name) has not answered for \(Self.limit / 60_000) minutes")
      }
      var chunk = [UInt8](repeating: 0, count: 4096)
      let count = Glibc.read(descriptor, &chunk, chunk.count)
      guard count > 0 else {
        process.waitUntilExit()
        throw Failure("\(name) has ended, with status \(process.terminationStatus)")
      }
      unread += chunk[..<count]
    }
  }
}

/// An error that ends the whole measurement, for people.
public struct Failure: Error, CustomStringConvertible {
  public let description: String

  public init(_ description: String) {
    self.description = description
  }
}
