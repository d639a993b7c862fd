/// What takes in coroutines and waits until all of them have ended.
@usableFromInline
package class CoroutineFamily: Waitable {
  /// One that it has taken in has ended, and has left its stack. By the thread that ran it, once. With the last of them the
  /// family may go.
  func childEnded(_ child: CoroutineCore) {
    fatalError(
      "\(type(of: self)) takes in coroutines but does not say what happens at their end: override childEnded(_:)")
  }
}
