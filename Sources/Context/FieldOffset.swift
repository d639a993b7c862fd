// SPDX-License-Identifier: Apache-2.0

@_spi(Reflection) import Swift

/// Where a stored property lies in values of a struct, or in objects of a class: for readers of another process's
/// memory, which have no other source for it. `nil` if there is none of that name, and without reflection metadata.
///
/// Uses the metadata that `Mirror` uses too; key paths support neither classes nor what can't be copied.
package func fieldOffset(_ name: String, in type: any ~Copyable.Type) -> UInt? {
  // This cast is right: a metatype is a pointer to the metadata, whether its values may be copied or not. No value is touched.
  let type = unsafeBitCast(type, to: Any.Type.self)
  var found: UInt?
  let options = type is AnyObject.Type ? _EachFieldOptions(rawValue: 1) : []  // `.classType` is a global variable
  _ = _forEachField(of: type, options: options) { field, offset, _, _ in
    guard String(cString: field) == name else { return true }
    found = UInt(offset)
    return false
  }
  return found
}
