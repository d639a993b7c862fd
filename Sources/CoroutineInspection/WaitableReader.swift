// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import Coroutine

/// Reads what coroutines wait at. Which fields an object of a class has, and the text that is made of them, its class says:
/// `ShownWaitable`.
struct WaitableReader {
  typealias Unreadable = TargetMemory.Unreadable

  private let memory: TargetMemory
  private let layout: coroutine_debug_layout
  private let classes = WaitableClasses.all
  /// By the classes' type descriptors in the process: where they are in `classes`.
  private let numbers: [UInt64: Int]

  init(_ memory: TargetMemory, _ layout: coroutine_debug_layout) {
    self.memory = memory
    self.layout = layout
    let kinds = withUnsafeBytes(of: layout.kinds) { Array($0.bindMemory(to: coroutine_debug_kind.self)) }
    // Of a process that was overwritten, two may be equal: any of them, then.
    numbers = Dictionary(zip(kinds.map(\.descriptor), kinds.indices)) { first, _ in first }
  }

  /// What a coroutine with `operation` waits for at this object, as the object itself would say it.
  func text(_ operation: WaitOperation, at object: UInt64) throws -> String {
    try text(operation, at: object, isElement: false)
  }

  /// - Parameter isElement: it is in the array of another one, and has none itself: one of a forged core could have itself.
  private func text(_ operation: WaitOperation, at object: UInt64, isElement: Bool) throws -> String {
    guard let number = try number(of: object) else { return "\(operation)" }
    let waitable = Object(address: object, number: number, reader: self, isElement: isElement)
    return try classes[number].waitText(operation, at: waitable)
  }

  /// Which of the classes it is of; `nil`: of none.
  private func number(of object: UInt64) throws(Unreadable) -> Int? {
    for descriptor in try memory.descriptors(of: object) {
      if let number = numbers[descriptor] { return number }
    }
    return nil
  }

  private func fields(ofClass number: Int) -> [UInt64] {
    withUnsafeBytes(of: layout.kinds) { bytes in
      let fields = bytes.bindMemory(to: coroutine_debug_kind.self)[number].fields
      return [fields.0, fields.1, fields.2, fields.3, fields.4, fields.5]
    }
  }

  /// An object of the class with this number.
  private struct Object: ForeignWaitable {
    let reader: WaitableReader
    private let fields: [UInt64]
    private let isElement: Bool

    init(address: UInt64, number: Int, reader: WaitableReader, isElement: Bool) {
      (self.reader, self.isElement) = (reader, isElement)
      fields = reader.fields(ofClass: number).map { address &+ $0 }
    }

    func string(_ field: Int) throws -> String { try reader.memory.string(fields[field]) }
    func int(_ field: Int) throws -> Int { try reader.memory.int(fields[field]) }
    func bool(_ field: Int) throws -> Bool { try reader.memory.byte(fields[field]) & 1 == 1 }
    func arrayCount(_ field: Int) throws -> Int { try reader.memory.arrayCount(fields[field]) }

    func texts(ofEndsIn field: Int, upTo limit: Int) throws -> [String] {
      guard !isElement else { throw Unreadable() }
      return try reader.memory.objects(ofArray: fields[field], upTo: limit).map {
        (try? reader.text(.promise, at: $0, isElement: true)) ?? "???"
      }
    }

    func holder(_ field: Int) throws -> String? {
      try reader.holder(reader.memory.word(fields[field]), block: reader.memory.word(fields[field + 1]))
    }

    func name(ofObjectIn field: Int) throws -> String {
      let object = try reader.memory.word(fields[field])
      guard object != 0, let number = try reader.number(of: object) else { return "" }
      let name = reader.fields(ofClass: number)[0]
      return name == CoroutineCore.noField ? "" : try reader.memory.string(object &+ name)
    }
  }

  /// The holder of a lock, in words: `nil` if there is none. As `HolderBlock.name(of:)`, the name of one that does not
  /// run.
  private func holder(_ word: UInt64, block: UInt64) -> String? {
    LockHolder(word: word & ~1).description { id in
      guard block != 0, let state = try? memory.word(block &+ layout.block_state),
        state == layout.state_ready || state == layout.state_suspended,
        let core = try? memory.word(block &+ layout.block_owner), (try? memory.word(core &+ layout.core_id)) == id
      else { return nil }
      return try? memory.string(core &+ layout.core_name)
    }
  }
}
