// SPDX-License-Identifier: Apache-2.0

import CCoroutineInspection
import Coroutine

/// Another process's memory, as Swift's values and objects lie in it. Closes the target when it goes.
final class TargetMemory {
  let target: OpaquePointer

  /// Nothing can be read there.
  struct Unreadable: Error {}

  /// No name is longer than that.
  private static var longestString: Int { 64 << 10 }

  init(_ target: OpaquePointer) { self.target = target }

  deinit { coroutine_target_close(target) }

  // MARK: Values

  func load<Value: BitwiseCopyable>(_ address: UInt64, as type: Value.Type = Value.self) throws(Unreadable) -> Value {
    let value = withUnsafeTemporaryAllocation(of: Value.self, capacity: 1) { buffer -> Value? in
      coroutine_target_read(target, address, buffer.baseAddress!, MemoryLayout<Value>.size) ? buffer[0] : nil
    }
    guard let value else { throw Unreadable() }
    return value
  }

  func word(_ address: UInt64) throws(Unreadable) -> UInt64 { try load(address) }
  func byte(_ address: UInt64) throws(Unreadable) -> UInt8 { try load(address) }
  func int(_ address: UInt64) throws(Unreadable) -> Int { try load(address) }

  private func bytes(_ address: UInt64, count: Int) throws(Unreadable) -> [UInt8] {
    guard count <= Self.longestString else { throw Unreadable() }
    var isRead = true
    let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
      isRead = count == 0 || coroutine_target_read(target, address, buffer.baseAddress!, count)
      initialized = isRead ? count : 0
    }
    guard isRead else { throw Unreadable() }
    return bytes
  }

  /// A `String`: two words. Up to 15 bytes lie in them; else the second one leads to an object, and to the bytes behind its
  /// head.
  func string(_ address: UInt64) throws(Unreadable) -> String {
    let (first, second) = (try word(address), try word(address &+ 8))
    let isSmall = second >> 61 & 1 == 1
    guard !isSmall else { return String(decoding: try bytes(address, count: Int(second >> 56 & 15)), as: UTF8.self) }
    let count = Int(first & 0xffff_ffff_ffff)
    return String(decoding: try bytes((second & 0x0fff_ffff_ffff_ffff) + 32, count: count), as: UTF8.self)
  }

  /// A string of C.
  func cString(_ address: UInt64) throws(Unreadable) -> String {
    var bytes: [UInt8] = []
    while bytes.count < Self.longestString {
      let next = try byte(address &+ UInt64(bytes.count))
      guard next != 0 else { return String(decoding: bytes, as: UTF8.self) }
      bytes.append(next)
    }
    throw Unreadable()
  }

  // MARK: Objects

  /// The type descriptors of an object's class and of its ancestors, in that order.
  func descriptors(of object: UInt64) throws(Unreadable) -> [UInt64] {
    var descriptors: [UInt64] = []
    var metadata = try word(object)
    // Deeper than any class of the runtime.
    while metadata != 0, descriptors.count < 8 {
      descriptors.append(try word(metadata &+ UInt64(SwiftClass.descriptor)))
      metadata = try word(metadata &+ UInt64(SwiftClass.superclass))
    }
    return descriptors
  }

  /// The name of an object's class, without module and parameters.
  func className(of object: UInt64) throws(Unreadable) -> String {
    let address = try word(word(object) &+ UInt64(SwiftClass.descriptor)) &+ UInt64(SwiftClass.nameInDescriptor)
    return try cString(address &+ UInt64(bitPattern: Int64(load(address, as: Int32.self))))
  }

  func arrayCount(_ array: UInt64) throws(Unreadable) -> Int {
    try int(word(array) &+ UInt64(SwiftClass.arrayCount))
  }

  /// The first elements of an array of objects behind a protocol, `limit` at most, given where the array lies.
  func objects(ofArray array: UInt64, upTo limit: Int) throws(Unreadable) -> [UInt64] {
    let (first, count) = (try word(array) &+ UInt64(SwiftClass.arrayElements), try arrayCount(array))
    var objects: [UInt64] = []
    // Each is the object and the witness of its conformance.
    for index in 0..<min(limit, max(count, 0)) { objects.append(try word(first &+ UInt64(index) * 16)) }
    return objects
  }

  /// The elements of an array of words, given where the array lies.
  func words(ofArray array: UInt64) throws(Unreadable) -> [UInt64] {
    let (object, count) = (try word(array), try arrayCount(array))
    guard 0...Self.longestString ~= count else { throw Unreadable() }
    var words: [UInt64] = []
    for index in 0..<count { words.append(try word(object &+ UInt64(SwiftClass.arrayElements) &+ UInt64(index) * 8)) }
    return words
  }
}
