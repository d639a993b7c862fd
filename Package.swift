// swift-tools-version: 6.3
// SPDX-License-Identifier: Apache-2.0
// A runtime for stackful coroutines. Choose the context backend by a trait:
//
//     swift build                       # ASM, the default: hand-written assembly, needs nothing
//     swift build --traits Boost        # Boost.Context's fcontext: needs libboost-context-dev
//     swift build --traits Ucontext     # the C library's ucontext
//
// Metrics and logs by another: `--traits ASM,Observability`. Coroutines on SwiftNIO's event loops: `--traits ASM,NIO`.
//
// Traits add up across a package graph, so that two may be on at once. An explicit choice then wins over the default:
// Ucontext over Boost over ASM; none at all means ASM.

import PackageDescription

/// What a module imports is its own affair unless it says `public import`: the arrows between the modules stay visible.
let swiftSettings: [SwiftSetting] = [.enableUpcomingFeature("InternalImportsByDefault")]

/// A context backend: the folders Sources/Context<name> and Sources/CCoroutineContext<name>, and a product, a trait and a
/// definition for Swift's and C's sources, which are named after it.
struct Backend {
  let name: String
  /// What its trait says.
  let purpose: String
  /// What is linked where it is chosen, and must be installed.
  var library: String?

  var isChosen: String { "CONTEXT_BACKEND_\(name.uppercased())" }
  var swiftTarget: String { "Context\(name)" }
  var cTarget: String { "CCoroutineContext\(name)" }
}

/// The one list of them, the default first: `scripts/backends.sh` and CMake read its lines. Where two traits are on, the
/// later one here wins.
let backends = [
  Backend(name: "ASM", purpose: "Switch contexts by hand-written assembly (the default)."),
  Backend(
    name: "Boost", purpose: "Switch contexts by Boost.Context's fcontext; needs libboost_context.",
    library: "boost_context"),
  Backend(name: "Ucontext", purpose: "Switch contexts by the C library's swapcontext."),
]
let optionalBackends = backends.dropFirst()

let package = Package(
  name: "Coroutine",
  products: [
    .library(name: "Coroutine", targets: ["Coroutine"]),
    .library(name: "CoroutineIO", targets: ["CoroutineIO"]),
    .library(name: "CoroutineDebug", targets: ["CoroutineDebug"]),
    .library(name: "CoroutineTesting", targets: ["CoroutineTesting"]),
    .library(name: "CoroutineTracing", targets: ["CoroutineTracing"]),
    .library(name: "CoroutineObservability", targets: ["CoroutineObservability"]),
    .library(name: "CoroutineNIO", targets: ["CoroutineNIO"]),
    .library(name: "CoroutineInspection", targets: ["CoroutineInspection"]),
    .library(name: "Context", targets: ["Context"]),
  ] + backends.map { .library(name: $0.swiftTarget, targets: [$0.swiftTarget]) },
  traits: Set(backends.map { .trait(name: $0.name, description: $0.purpose) }).union([
    .trait(name: "Observability", description: "CoroutineObservability: metrics and logs; needs two packages more."),
    .trait(name: "NIO", description: "CoroutineNIO: coroutines on SwiftNIO's event loops; needs swift-nio."),
    .default(enabledTraits: [backends[0].name]),
  ]),
  // Fetched only with the traits Observability and NIO.
  dependencies: [
    .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
    .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
    .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
  ],
  targets: [
    // Contexts: the protocol. (The backends come last.)
    .target(name: "CCoroutineSystem"),
    .target(name: "CoroutineLibc", swiftSettings: swiftSettings),
    // (The C library's types in its package interface belong to no importable module: no explicit import levels here.)
    .target(name: "Context", dependencies: ["CoroutineLibc", "CCoroutineSystem"]),

    // The runtime.
    .target(name: "CCoroutine", dependencies: ["CCoroutineSystem"]),
    .target(
      name: "Coroutine",
      dependencies: [
        "Context", "CoroutineLibc", "CCoroutineSystem", "CCoroutine",
        .target(name: backends[0].swiftTarget),  // always there, since no trait at all means this one
      ] + optionalBackends.map { .target(name: $0.swiftTarget, condition: .when(traits: [$0.name])) },
      swiftSettings: swiftSettings + backends.map { .define($0.isChosen, .when(traits: [$0.name])) }),

    // Sockets, pipes, files: what coroutines wait for outside of the process.
    .target(name: "CCoroutineIO"),
    .target(
      name: "CoroutineIO", dependencies: ["Coroutine", "Context", "CoroutineLibc", "CCoroutine", "CCoroutineIO"],
      swiftSettings: swiftSettings),

    // Tests of what runs in coroutines: a virtual time, schedules that are explored.
    .target(
      name: "CoroutineTesting", dependencies: ["Coroutine", "Context", "CCoroutineSystem", "CCoroutine"],
      swiftSettings: swiftSettings),

    // Traces of what runs when: an observer, and a file.
    .target(
      name: "CoroutineTracing",
      dependencies: ["Coroutine", "Context", "CoroutineLibc", "CCoroutineSystem", "CCoroutine"],
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

    // Event loops as schedulers, channels as connections: empty without the trait.
    .target(
      name: "CoroutineNIO",
      dependencies: [
        "Coroutine", "CoroutineIO", "CoroutineLibc", "Context",
        .product(name: "NIOCore", package: "swift-nio", condition: .when(traits: ["NIO"])),
        .product(name: "NIOPosix", package: "swift-nio", condition: .when(traits: ["NIO"])),
      ],
      swiftSettings: swiftSettings),

    // What suspended coroutines wait for. The only module that needs libunwind, and elfutils, which reads debug information.
    // libunwind has functions of the same names as the compiler's own unwinder. That one comes first, so that the exceptions
    // of a program are still thrown by it.
    .target(
      name: "CCoroutineUnwind", dependencies: ["CCoroutine", "CCoroutineSystem"],
      linkerSettings: [
        .linkedLibrary("gcc_s"), .linkedLibrary("unwind"), .linkedLibrary("dw"), .linkedLibrary("elf"),
      ]),
    .target(
      name: "CoroutineDebug",
      dependencies: ["Coroutine", "Context", "CoroutineLibc", "CCoroutineSystem", "CCoroutine", "CCoroutineUnwind"],
      swiftSettings: swiftSettings),

    // The same, of other processes and of core files.
    .target(
      name: "CCoroutineInspection", dependencies: ["CCoroutineUnwind"],
      linkerSettings: [.linkedLibrary("unwind-generic")]),
    .target(
      name: "CoroutineInspection",
      dependencies: [
        "CoroutineDebug", "Coroutine", "Context", "CoroutineLibc", "CCoroutine", "CCoroutineInspection",
      ],
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

    // Programs whose system calls are refused one by one, and what refuses them.
    .target(name: "CCoroutineFaults", path: "Tests/CCoroutineFaults"),
    .executableTarget(
      name: "CoroutineFaultPrograms",
      dependencies: ["CCoroutineFaults", "CoroutineDebug", "CoroutineIO", "Coroutine"],
      path: "Tests/CoroutineFaultPrograms", swiftSettings: swiftSettings),

    // How often operations ask for memory.
    .target(name: "CCoroutineAllocations", path: "Tests/CCoroutineAllocations"),
    .executableTarget(
      name: "CoroutineAllocations", dependencies: ["CCoroutineAllocations", "CoroutineIO", "Coroutine"],
      path: "Tests/CoroutineAllocations", swiftSettings: swiftSettings),

    // What the tests of `withObservationTracking` run.
    .executableTarget(
      name: "CoroutineTrackingPrograms", dependencies: ["Coroutine", "Context"],
      path: "Tests/CoroutineTrackingPrograms", swiftSettings: swiftSettings),

    // A load for minutes, whose short form is a test.
    .executableTarget(
      name: "CoroutineSoak", dependencies: ["CoroutineTesting", "Coroutine"], path: "Tests/CoroutineSoak",
      swiftSettings: swiftSettings),

    // Random programs of operations, compared with a model; their short form is a test.
    .executableTarget(
      name: "CoroutineRandomPrograms", dependencies: ["CoroutineTesting", "CoroutineIO", "Coroutine", "Context"],
      path: "Tests/CoroutineRandomPrograms", swiftSettings: swiftSettings),

    // Interleavings of the runtime's own atomic accesses: scripts/interleavings.sh.
    .executableTarget(
      name: "CoroutineInterleavings", dependencies: ["CoroutineTesting", "Coroutine", "Context", "CCoroutineSystem"],
      path: "Tests/CoroutineInterleavings", exclude: ["Defects"], swiftSettings: swiftSettings),

    // What lets tests block, and what the tests of several modules use.
    .target(
      name: "CoroutineTestSupport", dependencies: ["Coroutine", "Context"], path: "Tests/CoroutineTestSupport",
      swiftSettings: swiftSettings),

    // A backend that is wrong on purpose, and what tests must know of registers.
    .target(name: "CCoroutineContextTests", path: "Tests/CCoroutineContextTests"),

    .testTarget(
      name: "CoroutineContextTests",
      dependencies: [
        "CoroutineTestSupport", "CCoroutineContextTests", "CCoroutineUnwind", "Context", "CCoroutineSystem",
      ]
        // Those that need a library are tested where they are chosen.
        + backends.map {
          .target(name: $0.swiftTarget, condition: $0.library == nil ? nil : .when(traits: [$0.name]))
        },
      swiftSettings: swiftSettings + backends.map { .define($0.isChosen, .when(traits: [$0.name])) }),
    // A library in C that calls back on threads of its own, and a kernel that refuses.
    .target(name: "CCoroutineTests", path: "Tests/CCoroutineTests"),

    // The runtime, in several modules: the compiler's time grows with the square of the number of expectations in one.
    .testTarget(
      name: "CoroutineTests",
      dependencies: [
        "CoroutineTestSupport", "CoroutineTracing", "Coroutine", "Context", "CCoroutine", "CCoroutineSystem",
      ],
      swiftSettings: swiftSettings),
    .testTarget(
      name: "CoroutineSchedulerTests",
      dependencies: [
        "CoroutineTestSupport", "CoroutineTracing", "Coroutine", "Context", "CCoroutine", "CCoroutineSystem",
        "CCoroutineTests",
      ],
      swiftSettings: swiftSettings),
    .testTarget(
      name: "CoroutineScopeTests", dependencies: ["CoroutineTestSupport", "CoroutineTesting", "Coroutine", "Context"],
      swiftSettings: swiftSettings),
    .testTarget(
      name: "CoroutinePromiseTests", dependencies: ["CoroutineTestSupport", "Coroutine", "Context", "CCoroutine"],
      swiftSettings: swiftSettings),
    .testTarget(
      name: "CoroutineChannelTests", dependencies: ["CoroutineTestSupport", "Coroutine", "CCoroutine"],
      swiftSettings: swiftSettings),
    .testTarget(
      name: "CoroutineGeneratorTests", dependencies: ["CoroutineTestSupport", "Coroutine", "Context", "CCoroutine"],
      swiftSettings: swiftSettings),
    .testTarget(
      name: "CoroutineStateMachineTests", dependencies: ["CoroutineTestSupport", "Coroutine"],
      swiftSettings: swiftSettings),
    .testTarget(
      name: "CoroutineTestingTests",
      dependencies: ["CoroutineTestSupport", "CoroutineTesting", "CoroutineIO", "Coroutine"],
      swiftSettings: swiftSettings),
    .testTarget(
      name: "CoroutineIOTests",
      dependencies: [
        "CoroutineTestSupport", "CoroutineIO", "Coroutine", "CCoroutineIO", "CCoroutineSystem", "CCoroutineTests",
      ],
      swiftSettings: swiftSettings),
    .testTarget(
      name: "CoroutineDebugTests",
      dependencies: [
        "CoroutineTestSupport", "CoroutineDebug", "CoroutineInspection", "CoroutineIO", "Coroutine", "CCoroutine",
        "CCoroutineUnwind", "CCoroutineInspection",
      ],
      swiftSettings: swiftSettings),
  ]
    + backends.flatMap { backend -> [Target] in
      [
        .target(
          name: backend.cTarget, cSettings: [.define(backend.isChosen, .when(traits: [backend.name]))],
          linkerSettings: backend.library.map { [.linkedLibrary($0, .when(traits: [backend.name]))] } ?? []),
        .target(
          name: backend.swiftTarget, dependencies: [.target(name: backend.cTarget), "Context"],
          swiftSettings: swiftSettings),
      ]
    },
  swiftLanguageModes: [.v6]
)
