// SPDX-License-Identifier: Apache-2.0

#if COROUTINE_INTERLEAVINGS
  public import Context

  // See `Context/Interleaving.swift`.
  @usableFromInline package typealias Atomic = InterleavedAtomic
#endif
