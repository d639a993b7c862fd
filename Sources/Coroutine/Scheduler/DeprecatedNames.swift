// Names that this library had before: they stay for programs that were written with them. CHANGELOG.md lists them.

/// The name that `CoroutineJob` had.
@available(*, deprecated, renamed: "CoroutineJob")
public typealias Ready = CoroutineJob
