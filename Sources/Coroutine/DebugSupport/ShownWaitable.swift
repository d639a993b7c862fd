// SPDX-License-Identifier: Apache-2.0

import Context

/// A class that coroutines wait at, which says itself what dumps of another process show of it: where its fields lie, and
/// the text that is made of them. (What it shows in its own process, `Waitable.describe` and `wakers` say.)
///
/// `WaitableClasses` lists those that conform.
///
/// Any specialisation of a generic class may answer: the fields lie at the same offsets in all of them, in front of
/// everything whose size depends on a parameter.
package protocol ShownWaitable: AnyObject {
  /// Where its name lies, and behind it the other fields that its text needs; `noField` for a name that it does not have.
  /// At most `coroutine_debug_kind_fields`. `nil` without reflection metadata.
  static var waitFields: [UInt64]? { get }
  /// What a coroutine waits for that does `operation` at an object of this class: as `Waitable.describe` of that object.
  static func waitText(_ operation: WaitOperation, at object: some ForeignWaitable) throws -> String
}

/// An object of such a class in another process's memory. Its fields are numbered as in `waitFields`. All throw where the
/// memory can't be read.
package protocol ForeignWaitable {
  func string(_ field: Int) throws -> String
  func int(_ field: Int) throws -> Int
  func bool(_ field: Int) throws -> Bool
  /// The number of elements of an array.
  func arrayCount(_ field: Int) throws -> Int
  /// What waits for the ends of an array's first elements show, which are objects of such classes behind a protocol: of `limit` at
  /// most.
  func texts(ofEndsIn field: Int, upTo limit: Int) throws -> [String]
  /// The holder of a lock, in words; `nil` if there is none. Its `LockHolder` lies in this field, its block's address in the
  /// next one.
  func holder(_ field: Int) throws -> String?
  /// The name of the object that a field refers to, which is of one of these classes. Empty if there is none.
  func name(ofObjectIn field: Int) throws -> String
}

extension ShownWaitable {
  /// Stands for a field that a class does not have.
  package static var noField: UInt64 { .max }

  /// Where its stored properties of these names lie.
  package static func fieldOffsets(_ names: String?...) -> [UInt64]? {
    var offsets: [UInt64] = []
    for name in names {
      guard let name else {
        offsets.append(noField)
        continue
      }
      guard let offset = fieldOffset(name, in: Self.self) else { return nil }
      offsets.append(UInt64(offset))
    }
    return offsets
  }
}
