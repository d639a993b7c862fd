// SPDX-License-Identifier: Apache-2.0

#if Observability
  import Coroutine
  public import Logging

  extension Logger.MetadataProvider {
    /// Says in each line which coroutine has logged it: `coroutine`, its number, and `coroutine.name` if it has a name.
    /// The numbers are those of dumps and traces. A line from elsewhere has neither.
    ///
    /// ```swift
    /// LoggingSystem.bootstrap({ StreamLogHandler.standardError(label: $0, metadataProvider: $1) }, metadataProvider: .coroutine)
    /// ```
    ///
    /// A generator's body logs as the coroutine that consumes it; `async` code that a coroutine awaits logs as none.
    public static var coroutine: Logger.MetadataProvider {
      Logger.MetadataProvider {
        guard let current = Coroutine.current else { return [:] }
        let number: Logger.Metadata = ["coroutine": "\(current.id)"]
        return current.name.isEmpty ? number : number.merging(["coroutine.name": "\(current.name)"]) { $1 }
      }
    }
  }
#endif
