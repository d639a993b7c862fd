// swift-tools-version: 6.3
// A runtime for stackful coroutines. Choose the context backend by a trait:
//
//     swift build                       # ASM, the default: hand-written assembly, needs nothing
//     swift build --traits Boost        # Boost.Context's fcontext: needs libboost-context-dev
//     swift build --traits Ucontext     # the C library's ucontext
//
// Metrics and logs by another: `--traits ASM,Observability`.
//
// Traits add up across a package graph, so that two may be on at once. An explicit choice then wins over the default:
// Ucontext over Boost over ASM; none at all means ASM.

import PackageDescription

/// What a module imports is its own affair unless it says `public import`: the arrows between the modules stay visible.
let swiftSettings: [SwiftSetting] = [.enableUpcomingFeature("InternalImportsByDefault")]

let package = Package(
  name: "Coroutine",
  products: [
    .library(name: "Coroutine", targets: ["Coroutine"]),
    .library(name: "CoroutineIO", targets: ["CoroutineIO"]),
    .library(name: "CoroutineDebug", targets: ["CoroutineDebug"]),
    .library(name: "CoroutineTracing", targets: ["CoroutineTracing"]),
    .library(name: "CoroutineObservability", targets: ["CoroutineObservability"]),
    .library(name: "CoroutineInspection", targets: ["CoroutineInspection"]),
    .library(name: "Context", targets: ["Context"]),
    .library(name: "ContextASM", targets: ["ContextASM"]),
    .library(name: "ContextBoost", targets: ["ContextBoost"]),
    .library(name: "ContextUcontext", targets: ["ContextUcontext"]),
  ],
  traits: [
    .trait(name: "ASM", description: "Switch contexts by hand-written assembly (the default)."),
    .trait(name: "Boost", description: "Switch contexts by Boost.Context's fcontext; needs libboost_context."),
    .trait(name: "Ucontext", description: "Switch contexts by the C library's swapcontext."),
    .trait(name: "Observability", description: "CoroutineObservability: metrics and logs; needs two packages more."),
    .default(enabledTraits: ["ASM"]),
  ],
  // Fetched only with the trait Observability.
  dependencies: [
    .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
    .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
  ],
  targets: [
    // Contexts: the protocol, and one folder a backend.
    .target(name: "CCoroutineSystem"),
    // (The C library's types in its package interface belong to no importable module: no explicit import levels here.)
    .target(name: "Context", dependencies: ["CCoroutineSystem"]),
    .target(name: "CCoroutineContextASM"),
    .target(
      name: "CCoroutineContextBoost",
      cSettings: [.define("CONTEXT_BACKEND_BOOST", .when(traits: ["Boost"]))],
      linkerSettings: [.linkedLibrary("boost_context", .when(traits: ["Boost"]))]),
    .target(name: "CCoroutineContextUcontext"),
    .target(name: "ContextASM", dependencies: ["CCoroutineContextASM", "Context"], swiftSettings: swiftSettings),
    .target(name: "ContextBoost", dependencies: ["CCoroutineContextBoost", "Context"], swiftSettings: swiftSettings),
    .target(
      name: "ContextUcontext", dependencies: ["CCoroutineContextUcontext", "Context"], swiftSettings: swiftSettings),

    // The runtime.
    .target(name: "CCoroutine"),
    .target(
      name: "Coroutine",
      dependencies: [
        "Context", "CCoroutineSystem", "CCoroutine",
        "ContextASM",  // always there, since no trait at all means ASM
        .target(name: "ContextBoost", condition: .when(traits: ["Boost"])),
        .target(name: "ContextUcontext", condition: .when(traits: ["Ucontext"])),
      ],
      swiftSettings: swiftSettings + [
        .define("CONTEXT_BACKEND_BOOST", .when(traits: ["Boost"])),
        .define("CONTEXT_BACKEND_UCONTEXT", .when(traits: ["Ucontext"])),
      ]),

    // Sockets, pipes, files: what coroutines wait for outside of the process.
    .target(name: "CCoroutineIO"),
    .target(
      name: "CoroutineIO", dependencies: ["Coroutine", "Context", "CCoroutine", "CCoroutineIO"],
      swiftSettings: swiftSettings),

    // Traces of what runs when: an observer, and a file.
    .target(
      name: "CoroutineTracing", dependencies: ["Coroutine", "Context", "CCoroutineSystem", "CCoroutine"],
      swiftSettings: swiftSettings),

    // Metrics and logs: empty without the trait.
    .target(
      name: "CoroutineObservability",
      dependencies: [
        "Coroutine", "Context",
        .product(name: "Logging", package: "swift-log", condition: .when(traits: ["Observability"])),
        .product(name: "CoreMetrics", package: "swift-metrics", condition: .when(traits: ["Observability"])),
      ],
      swiftSettings: swiftSettings),

    // What suspended coroutines wait for. The only module that needs libunwind, and elfutils, which reads debug information.
    .target(
      name: "CCoroutineUnwind", dependencies: ["CCoroutine"],
      linkerSettings: [.linkedLibrary("unwind"), .linkedLibrary("dw"), .linkedLibrary("elf")]),
    .target(
      name: "CoroutineDebug",
      dependencies: ["Coroutine", "Context", "CCoroutineSystem", "CCoroutine", "CCoroutineUnwind"],
      swiftSettings: swiftSettings),

    // The same, of other processes and of core files.
    .target(
      name: "CCoroutineInspection", dependencies: ["CCoroutineUnwind"],
      linkerSettings: [.linkedLibrary("unwind-generic")]),
    .target(
      name: "CoroutineInspection",
      dependencies: ["CoroutineDebug", "Coroutine", "Context", "CCoroutine", "CCoroutineInspection"],
      swiftSettings: swiftSettings),

    // What the tests of deadlock reports run.
    .executableTarget(
      name: "CoroutineDeadlockPrograms",
      dependencies: ["CoroutineDebug", "CoroutineIO", "Coroutine", "Context", "CCoroutineUnwind"],
      path: "Tests/CoroutineDeadlockPrograms", swiftSettings: swiftSettings),

    // What the tests of dumps look at.
    .executableTarget(
      name: "CoroutineDumpedProgram", dependencies: ["CoroutineDebug", "Coroutine", "CCoroutine"],
      path: "Tests/CoroutineDumpedProgram", swiftSettings: swiftSettings),

    // What lets tests block.
    .target(name: "CoroutineTestSupport", path: "Tests/CoroutineTestSupport", swiftSettings: swiftSettings),

    .testTarget(
      name: "CoroutineContextTests",
      dependencies: [
        "CoroutineTestSupport", "Context", "CCoroutineSystem", "ContextASM", "ContextUcontext",
        .target(name: "ContextBoost", condition: .when(traits: ["Boost"])),
      ],
      swiftSettings: swiftSettings + [.define("CONTEXT_BACKEND_BOOST", .when(traits: ["Boost"]))]),
    .testTarget(
      name: "CoroutineTests",
      dependencies: [
        "CoroutineTestSupport", "CoroutineTracing", "Coroutine", "Context", "CCoroutine", "CCoroutineSystem",
      ],
      swiftSettings: swiftSettings),
    .testTarget(
      name: "CoroutineIOTests",
      dependencies: ["CoroutineTestSupport", "CoroutineIO", "Coroutine", "CCoroutineIO"], swiftSettings: swiftSettings),
    .testTarget(
      name: "CoroutineDebugTests",
      dependencies: [
        "CoroutineTestSupport", "CoroutineDebug", "CoroutineInspection", "CoroutineIO", "Coroutine", "CCoroutine",
        "CCoroutineUnwind", "CCoroutineInspection",
      ],
      swiftSettings: swiftSettings),
  ],
  swiftLanguageModes: [.v6]
)
