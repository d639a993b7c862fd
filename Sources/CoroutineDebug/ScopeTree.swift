// SPDX-License-Identifier: Apache-2.0

/// The coroutines by which waits for whose end: each scope under its owner, its children under it; those that belong to
/// no scope under their creator, as long as that lives.
struct ScopeTree {
  private struct Node {
    let label: String
    /// State and what it waits for.
    let text: String
  }

  /// What something hangs from.
  private enum Parent: Hashable {
    case root
    case coroutine(UInt64)
    case scope(CoroutineBacktrace.Scope)
  }

  private var nodes: [UInt64: Node] = [:]
  private var members: [(id: UInt64, parentID: UInt64?, scope: CoroutineBacktrace.Scope?)] = []

  /// A deeper tree is not readable; and a list can be as deep as it is long.
  private static let depthLimit = 32
  /// From so many siblings on, those without children that wait for the same are shown as one.
  private static let fewest = 4

  mutating func insert(_ coroutine: CoroutineBacktrace) {
    // Overwritten memory of another process may have the same number twice: it would hang from itself, many times over.
    guard !coroutine.isGenerator, nodes[coroutine.id] == nil else { return }
    let reason = coroutine.waitsFor.isEmpty ? "" : ", \(coroutine.waitsFor)"
    let state = coroutine.state == .new ? "not begun" : coroutine.state.rawValue
    let cancelled = coroutine.isCancelled ? ", cancelled" : ""
    nodes[coroutine.id] = Node(label: coroutine.label, text: "\(state)\(cancelled)\(reason.onOneLine)")
    members.append((coroutine.id, coroutine.parentID, coroutine.scope))
  }

  func write(to stream: inout some TextOutputStream) {
    var coroutines: [Parent: [UInt64]] = [:]
    var scopes: [Parent: [CoroutineBacktrace.Scope]] = [:]
    var known: Set<CoroutineBacktrace.Scope> = []
    for (id, parentID, scope) in members {
      guard let scope else {
        coroutines[parent(withID: parentID), default: []].append(id)
        continue
      }
      coroutines[.scope(scope), default: []].append(id)
      if known.insert(scope).inserted { scopes[parent(withID: scope.ownerID), default: []].append(scope) }
    }
    let tree = Arranged(nodes: nodes, coroutines: coroutines, scopes: scopes)
    tree.write(.root, indentation: nil, depth: 0, to: &stream)
  }

  private func parent(withID id: UInt64?) -> Parent {
    guard let id, nodes[id] != nil else { return .root }
    return .coroutine(id)
  }

  private struct Arranged {
    let nodes: [UInt64: Node]
    let coroutines: [Parent: [UInt64]]
    let scopes: [Parent: [CoroutineBacktrace.Scope]]

    private enum Entry {
      case scope(CoroutineBacktrace.Scope)
      case coroutine(UInt64)
      case several([UInt64])
    }

    /// What hangs there, `indentation` in front; `nil` in front of what hangs from nothing.
    func write(_ parent: Parent, indentation: String?, depth: Int, to stream: inout some TextOutputStream) {
      let entries = entries(of: parent)
      for (index, entry) in entries.enumerated() {
        let isLast = index == entries.count - 1
        let branch = indentation.map { $0 + (isLast ? "└─ " : "├─ ") } ?? ""
        let below = indentation.map { $0 + (isLast ? "   " : "│  ") } ?? ""
        stream.write(branch + text(of: entry) + "\n")
        guard let next = asParent(entry), coroutines[next] != nil || scopes[next] != nil else { continue }
        if depth < ScopeTree.depthLimit {
          write(next, indentation: below, depth: depth + 1, to: &stream)
        } else {
          stream.write(below + "└─ …\n")
        }
      }
    }

    private func asParent(_ entry: Entry) -> Parent? {
      switch entry {
      case .scope(let scope): .scope(scope)
      case .coroutine(let id): .coroutine(id)
      case .several: nil
      }
    }

    private func text(of entry: Entry) -> String {
      switch entry {
      case .scope(let scope): scope.name.isEmpty ? "a scope" : "scope \"\(scope.name.onOneLine)\""
      case .coroutine(let id): "coroutine \(nodes[id]?.label ?? ""): \(nodes[id]?.text ?? "")"
      case .several(let ids):
        "\(DumpStyle.number(ids.count)) coroutines: \(nodes[ids[0]]?.text ?? ""): "
          + ids.prefix(3).map { nodes[$0]?.label ?? "" }.joined(separator: ", ") + ", …"
      }
    }

    /// Scopes first, then coroutines by number, the alike ones at the place of the first of them.
    private func entries(of parent: Parent) -> [Entry] {
      var entries = (scopes[parent] ?? []).sorted { $0.id < $1.id }.map(Entry.scope)
      let ids = (coroutines[parent] ?? []).sorted()
      let leaves = ids.filter { coroutines[.coroutine($0)] == nil && scopes[.coroutine($0)] == nil }
      let alike = Dictionary(grouping: leaves) { nodes[$0]?.text ?? "" }.filter { $0.value.count >= ScopeTree.fewest }
      let grouped = Set(alike.values.flatMap { $0 })
      for id in ids {
        if !grouped.contains(id) {
          entries.append(.coroutine(id))
        } else if let group = alike[nodes[id]?.text ?? ""], group[0] == id {
          entries.append(.several(group))
        }
      }
      return entries
    }
  }
}

extension CoroutineDump {
  /// The coroutines as a tree: each scope under the coroutine that it belongs to, its children under it; those that belong
  /// to no scope under the coroutine that created them, as long as that lives.
  ///
  ///     coroutine 1 "main": suspended, the children of scope "workers"
  ///     └─ scope "workers"
  ///        ├─ coroutine 2 "producer": suspended, send on channel "jobs" (1 sender)
  ///        └─ 100 coroutines: suspended, a callback: 3 "worker", 4 "worker", 5 "worker", …
  public var tree: String {
    var tree = ScopeTree()
    for coroutine in coroutines { tree.insert(coroutine) }
    var text = ""
    tree.write(to: &text)
    return text
  }
}
