// SPDX-License-Identifier: Apache-2.0

// The C library that Swift runs on here, for the package's own modules: one place knows which one that is.

#if canImport(Musl)
  @_exported public import Musl
#else
  @_exported public import Glibc
#endif
