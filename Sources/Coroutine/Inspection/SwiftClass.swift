// SPDX-License-Identifier: Apache-2.0

/// What Swift's ABI says of a class's metadata, to which the first word of each object leads. The same on all platforms
/// without Objective-C.
package enum SwiftClass {
  /// Where the metadata of the ancestor lies, or 0.
  package static var superclass: UInt { 8 }
  /// Where the type descriptor lies: one for all specialisations of a generic class.
  package static var descriptor: UInt { 40 }
  /// Where a descriptor has the offset of the type's name, relative to this field, in 32 bits.
  package static var nameInDescriptor: UInt { 8 }
  /// Where in the object of an array its count lies, and where its elements begin.
  package static var arrayCount: UInt { 16 }
  package static var arrayElements: UInt { 32 }

  static func descriptor(of type: AnyClass) -> UInt {
    // A metatype of a class is a pointer to its metadata.
    unsafeBitCast(type, to: UnsafeRawPointer.self).load(fromByteOffset: Int(descriptor), as: UInt.self)
  }
}
