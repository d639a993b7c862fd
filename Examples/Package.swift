// swift-tools-version: 6.3
// Programs that a newcomer can read in a minute. Like any user, they see only the products of the package above. They
// pass their own choice of a context backend on to it:
//
//     swift run -c release index-files                      # ASM
//     swift run -c release --traits Boost index-files
//
// `make demo` runs index-files on each backend. scripts/examples.sh runs all others, the servers with clients, and
// compares their output with the files in Output/.

import PackageDescription

/// A program in one file.
func example(_ name: String) -> Target {
  .executableTarget(
    name: name, dependencies: [.product(name: "Coroutine", package: "Coroutine")],
    swiftSettings: [.treatAllWarnings(as: .error)])
}

/// A program that uses sockets.
func server(_ name: String) -> Target {
  let target = example(name)
  target.dependencies.append(.product(name: "CoroutineIO", package: "Coroutine"))
  return target
}

/// The backends of ../Package.swift, whose traits are passed on: a manifest can't read another one.
/// `scripts/backends.sh --write` writes the entries.
let backends: KeyValuePairs = [
  "ASM": "Switch contexts by hand-written assembly (the default).",
  "Boost": "Switch contexts by Boost.Context's fcontext; needs libboost_context.",
  "Ucontext": "Switch contexts by the C library's swapcontext.",
]

let package = Package(
  name: "Examples",
  traits: Set(backends.map { .trait(name: $0.key, description: $0.value) }).union([.default(enabledTraits: ["ASM"])]),
  dependencies: [
    .package(
      name: "Coroutine", path: "..",
      traits: Set(backends.map { .trait(name: $0.key, condition: .when(traits: [$0.key])) })),
    .package(url: "https://github.com/apple/swift-argument-parser", exact: "1.8.2"),
  ],
  targets: [
    .executableTarget(
      name: "index-files",
      dependencies: [
        .product(name: "Coroutine", package: "Coroutine"),
        .product(name: "CoroutineDebug", package: "Coroutine"),
        .product(name: "CoroutineIO", package: "Coroutine"),
        .product(name: "CoroutineTracing", package: "Coroutine"),
        .product(name: "Context", package: "Coroutine"),
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
      ],
      swiftSettings: [.treatAllWarnings(as: .error)]),
    example("fibonacci"),
    example("chat-robot"),
    example("counting"),
    example("message-queue"),
    example("counter"),
    example("pull-xml"),
    example("login"),
    example("event-loop"),
    example("priority-scheduler"),
    server("echo-server"),
    server("chat-server"),
    server("load-client"),
  ],
  swiftLanguageModes: [.v6]
)
