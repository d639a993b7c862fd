import Foundation

/// As much of JSON Schema as `docs/dump-schema.json` uses; any other keyword is an error.
struct JSONSchema {
  private let root: [String: Any]

  init(contentsOf path: String) throws {
    let data = try Data(contentsOf: URL(fileURLWithPath: path))
    guard let root = try JSONSerialization.jsonObject(with: data) as? [String: Any] else {
      throw Problem(text: "not an object")
    }
    self.root = root
  }

  struct Problem: Error, CustomStringConvertible {
    let text: String
    var description: String { text }
  }

  func validate(_ value: Any) throws {
    try validate(value, root, "$")
  }

  private func validate(_ value: Any, _ schema: [String: Any], _ path: String) throws {
    func check(_ condition: Bool, _ what: String) throws {
      if !condition { throw Problem(text: "\(path): \(what): \(value)".prefix(400).description) }
    }
    for (keyword, rule) in schema {
      switch keyword {
      case "$schema", "$defs", "title", "description": break
      case "$ref":
        let name = (rule as? String)?.split(separator: "/").last.map(String.init) ?? ""
        guard let target = (root["$defs"] as? [String: Any])?[name] as? [String: Any] else {
          throw Problem(text: "no definition \(rule)")
        }
        try validate(value, target, path)
      case "type": try check(Self.type(of: value, is: rule as? String ?? ""), "not of type \(rule)")
      case "const": try check((value as? NSObject) == (rule as? NSObject), "not \(rule)")
      case "enum": try check((rule as? [NSObject] ?? []).contains { $0 == value as? NSObject }, "none of \(rule)")
      case "minimum":
        try check((value as? NSNumber)?.doubleValue ?? 0 >= (rule as? NSNumber)?.doubleValue ?? 0, "below \(rule)")
      case "pattern":
        let expression = try Regex(rule as? String ?? "")
        try check((value as? String)?.firstMatch(of: expression) != nil, "does not match \(rule)")
      case "required":
        for key in rule as? [String] ?? [] { try check((value as? [String: Any])?[key] != nil, "has no \(key)") }
      case "additionalProperties":
        let known = schema["properties"] as? [String: Any] ?? [:]
        for key in (value as? [String: Any] ?? [:]).keys { try check(known[key] != nil, "has a key \(key)") }
      case "properties":
        for (key, rule) in rule as? [String: [String: Any]] ?? [:] {
          if let member = (value as? [String: Any])?[key] { try validate(member, rule, "\(path).\(key)") }
        }
      case "items":
        for (index, element) in (value as? [Any] ?? []).enumerated() {
          try validate(element, rule as? [String: Any] ?? [:], "\(path)[\(index)]")
        }
      default: throw Problem(text: "the schema has a keyword \(keyword) that is not known here")
      }
    }
  }

  private static func type(of value: Any, is name: String) -> Bool {
    switch name {
    case "object": value is [String: Any]
    case "array": value is [Any]
    case "string": value is String
    case "integer": (value as? NSNumber).map { $0.doubleValue == $0.doubleValue.rounded() } ?? false
    case "number": value is NSNumber
    default: false
    }
  }
}
