// swift-tools-version: 6.3
// SPDX-License-Identifier: Apache-2.0
// The benchmarks: the backends against each other in one process, and the runtime beside its alternatives.
// `scripts/bench.sh` (or `make bench`) builds and runs them; see README.md.
//
// The traits in `backends` choose the runtime's own backend, and are passed on to the package above. The trait `BoostLibrary`
// says that libboost_context can be linked: the yardstick, `jump_fcontext`, comes from it, and so does the Boost backend in the
// comparison of the three. Without it both are reported as missing.

import PackageDescription

/// The backends of ../Package.swift, whose traits are passed on: a manifest can't read another one.
/// `scripts/backends.sh --write` writes the entries.
let backends: KeyValuePairs = [
  "ASM": "Switch contexts by hand-written assembly (the default).",
  "Boost": "Switch contexts by Boost.Context's fcontext; needs libboost_context.",
  "Ucontext": "Switch contexts by the C library's swapcontext.",
]

let package = Package(
  name: "Benchmarks",
  traits: Set(
    backends.map { name, description in
      .trait(name: name, description: description, enabledTraits: name == "Boost" ? ["BoostLibrary"] : [])
    }
  ).union([
    .trait(name: "BoostLibrary", description: "Measure jump_fcontext; needs libboost_context."),
    .default(enabledTraits: ["ASM", "BoostLibrary"]),
  ]),
  dependencies: [
    .package(
      name: "Coroutine", path: "..",
      traits: Set(backends.map { .trait(name: $0.key, condition: .when(traits: [$0.key])) })),
    // AsyncChannel, a peer.
    .package(url: "https://github.com/apple/swift-async-algorithms", exact: "1.1.4"),
  ],
  targets: [
    // What Swift cannot express: a malloc that counts in the place of the real one, and the choice of a processor.
    .target(name: "CMeasurement"),
    // Loops in C, with which the same loops in Swift are compared.
    .target(
      name: "CSwitchLoops",
      dependencies: [.product(name: "ContextASM", package: "Coroutine")],
      cSettings: [.define("BENCHMARKS_BOOST", .when(traits: ["BoostLibrary"]))],
      linkerSettings: [.linkedLibrary("boost_context", .when(traits: ["BoostLibrary"]))]),
    // How everything is measured: interleaved runs, medians, ratios, the table and the JSON.
    .target(name: "Measurement", dependencies: ["CMeasurement"]),
    // What is measured.
    .executableTarget(
      name: "benchmarks",
      dependencies: [
        "CSwitchLoops", "Measurement",
        .product(name: "AsyncAlgorithms", package: "swift-async-algorithms"),
        .product(name: "Coroutine", package: "Coroutine"),
        .product(name: "CoroutineDebug", package: "Coroutine"),
        .product(name: "Context", package: "Coroutine"),
        .product(name: "ContextASM", package: "Coroutine"),
        .product(name: "ContextBoost", package: "Coroutine", condition: .when(traits: ["BoostLibrary"])),
        .product(name: "ContextUcontext", package: "Coroutine"),
      ],
      swiftSettings: [.define("BENCHMARKS_BOOST", .when(traits: ["BoostLibrary"]))]),
  ],
  swiftLanguageModes: [.v6]
)
