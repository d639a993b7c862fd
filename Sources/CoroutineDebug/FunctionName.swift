// SPDX-License-Identifier: Apache-2.0

import CCoroutineUnwind
import Context
import CoroutineLibc
import Runtime

/// A function's name: for people, and for finding whose it is.
struct FunctionName {
  /// Demangled, without module and types.
  let text: String
  let owner: Owner
  /// Whether the compiler made it, to call another one.
  let isThunk: Bool
  private let mangled: String

  /// The code that a function belongs to.
  enum Owner {
    case program
    /// This library, or what its backend calls.
    case runtime
    /// The code that calls it: a function of a library that all code uses.
    case caller
  }

  /// - Parameter backend: the code of the context backend of the process that the function is in.
  init(mangled: String, backend: ContextCode?) {
    // What else belongs to a symbol has nothing to do with its name.
    let symbol = SymbolicatedBacktrace.Symbol(
      imageIndex: 0, imageName: "", rawName: mangled, offset: 0, sourceLocation: nil)
    isThunk = symbol.isSwiftThunk
    self.mangled = mangled
    owner = Self.owner(of: mangled, backend)
    var text = Substring(symbol.name)
    // How the compiler came to a function says nothing about the program.
    for prefix in ["partial apply for ", "specialized "] where text.hasPrefix(prefix) {
      text.removeFirst(prefix.count)
    }
    // An optimizer merges functions that differ in little, and gives the result the name of one of them: another one
    // may have been called. The short form of a name does not say so.
    let merged = Self.isMerged(mangled) ? "merged " : ""
    // Code outside of all functions has no name.
    self.text = merged + (text.hasSuffix(" in ") ? text + "main" : text)
  }
}

extension FunctionName {
  /// Whether the optimiser has moved this function's body to `callee`, which takes fewer parameters, or takes them in another
  /// way. Then nothing is left of this one but a call, in its callers' code.
  func isMoved(to callee: FunctionName) -> Bool {
    // Its name is this one's, and what was done to the parameters by the pass with that number.
    callee.mangled.hasPrefix(mangled) && callee.mangled.dropFirst(mangled.count).hasPrefix("Tf4")
  }

  private static func owner(of mangled: String, _ backend: ContextCode?) -> Owner {
    guard mangled.hasPrefix("$s") else {
      // Where the process begins.
      if mangled == "_start" { return .runtime }
      if sanitizerFunctions.contains(where: { mangled.hasPrefix($0) }) { return .caller }
      return backend?.symbolPrefixes.contains { mangled.hasPrefix($0) } == true ? .runtime : .program
    }
    if isInOwnExtension(mangled) { return .runtime }
    let name = mangled.dropFirst(2)
    // "s" is the module Swift; "S" begins a well-known type of it, except "SC" and "So", which are C's.
    if name.hasPrefix("s") || (name.hasPrefix("S") && !name.hasPrefix("SC") && !name.hasPrefix("So")) {
      return .caller
    }
    let modules = runtimeModules + (backend.map { [$0.module] } ?? [])
    guard modules.contains(where: { name.hasPrefix("\($0.utf8.count)\($0)") }) else { return .program }
    return extender(of: mangled).map { !modules.contains($0) } == true ? .program : .runtime
  }

  /// Whether a function on a type of others, such as `Task.get()`, is the runtime's.
  private static func isInOwnExtension(_ mangled: String) -> Bool {
    // The full name takes microseconds; most names are not of this kind.
    runtimeModules.contains { mangled.contains("\($0.utf8.count)\($0)E") }
      && extender(of: mangled).map(runtimeModules.contains) == true
  }

  /// The module of the extension that a function is in; `nil`: it is in none. Only the full name shows it.
  private static func extender(of mangled: String) -> String? {
    guard let demangled = swift_demangle(mangled, mangled.utf8.count, nil, nil, 0) else { return nil }
    defer { free(demangled) }
    let name = String(cString: demangled)
    guard let start = name.firstRange(of: "(extension in ")?.upperBound else { return nil }
    return String(name[start...].prefix { $0 != ")" })
  }

  /// What passes of LLVM's add comes behind a dot.
  private static func isMerged(_ mangled: String) -> Bool {
    mangled.hasPrefix("$s") && mangled.prefix { $0 != "." }.hasSuffix("Tm")
  }

  /// All but the backend's.
  private static let runtimeModules = [
    "Coroutine", "CoroutineIO", "CoroutineDebug", "CoroutineTracing", "CoroutineObservability", "CoroutineTesting",
    "CoroutineNIO", "Context",
  ]

  /// A sanitizer's own forms of functions of the C library, which have two names, and where its threads begin.
  private static let sanitizerFunctions = [
    "___interceptor_", "__interceptor_", "_ZL17asan_thread_start", "__tsan_thread_start_func",
  ]
}
