public import Testing

/// What a program wrote to its standard error before it ended, as it had to.
public func standardError(of result: ExitTest.Result?) -> String {
  result.map { String(decoding: $0.standardErrorContent, as: UTF8.self) } ?? ""
}

public func standardOutput(of result: ExitTest.Result?) -> String {
  result.map { String(decoding: $0.standardOutputContent, as: UTF8.self) } ?? ""
}
