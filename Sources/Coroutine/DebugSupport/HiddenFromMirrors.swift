// SPDX-License-Identifier: Apache-2.0

/// An object whose fields other threads change, under a lock or one after another: `dump`, a test's failure and whatever else
/// asks a `Mirror` would read them in the middle of that. So a mirror shows none of them.
///
/// Their handles have descriptions, which take the lock.
@usableFromInline
package protocol HiddenFromMirrors: CustomReflectable {}

extension HiddenFromMirrors {
  @inlinable public var customMirror: Mirror { Mirror(self, children: [], ancestorRepresentation: .suppressed) }
}
