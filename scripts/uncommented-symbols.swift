// SPDX-License-Identifier: Apache-2.0

// Names the public symbols of a module that have no comment: `uncommented <symbol graph>...`. Fails if there are any.
// Not those that the compiler makes, and not those that meet a protocol's requirement: the requirement is described.

import Foundation

struct SymbolGraph: Decodable {
  let symbols: [Symbol]
  let relationships: [Relationship]
}

struct Symbol: Decodable {
  let identifier: Identifier
  let kind: Kind
  let pathComponents: [String]
  let docComment: Comment?
  let location: Location?

  struct Identifier: Decodable { let precise: String }
  struct Kind: Decodable { let identifier: String }
  struct Comment: Decodable {}
  struct Location: Decodable {
    let uri: String
    let position: Position
    struct Position: Decodable { let line: Int }
  }
}

struct Relationship: Decodable {
  let source: String
  /// The requirement that the source meets.
  let sourceOrigin: Origin?

  struct Origin: Decodable { let identifier: String }
}

let graphs = try CommandLine.arguments.dropFirst().map { path in
  try JSONDecoder().decode(SymbolGraph.self, from: Data(contentsOf: URL(filePath: path)))
}
var count = 0
for graph in graphs {
  let witnesses = Set(graph.relationships.filter { $0.sourceOrigin != nil }.map(\.source))
  for symbol in graph.symbols where symbol.docComment == nil {
    let name = symbol.identifier.precise
    // An `extension` is no symbol of its own: its members are.
    if name.contains("::SYNTHESIZED::") || symbol.kind.identifier == "swift.extension" || witnesses.contains(name) { continue }
    let place = symbol.location.map { "\(URL(string: $0.uri)?.path ?? $0.uri):\($0.position.line + 1): " } ?? ""
    print("\(place)error: \(symbol.pathComponents.joined(separator: ".")) is public and has no comment")
    count += 1
  }
}
exit(count == 0 ? 0 : 1)
