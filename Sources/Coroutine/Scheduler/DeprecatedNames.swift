// SPDX-License-Identifier: Apache-2.0

// Names that this library had before: they stay for programs that were written with them. CHANGELOG.md lists them.

/// The name that `CoroutineJob` had.
@available(*, deprecated, renamed: "CoroutineJob")
public typealias Ready = CoroutineJob
