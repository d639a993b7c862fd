// swift-tools-version: 6.3
// SPDX-License-Identifier: Apache-2.0
// HTTP servers with a fixed answer, which scripts/bench-io.sh compares: coroutines, by themselves and on SwiftNIO's
// event loop, SwiftNIO's handlers, and its NIOAsyncChannel.

import PackageDescription

let nio: [Target.Dependency] = [
  .product(name: "NIOCore", package: "swift-nio"), .product(name: "NIOHTTP1", package: "swift-nio"),
  .product(name: "NIOPosix", package: "swift-nio"),
]

let package = Package(
  name: "BenchmarksIO",
  dependencies: [
    .package(name: "Coroutine", path: "../..", traits: ["ASM", "NIO"]),
    .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
  ],
  targets: [
    .executableTarget(
      name: "coroutine-server",
      dependencies: [
        .product(name: "Coroutine", package: "Coroutine"), .product(name: "CoroutineIO", package: "Coroutine"),
      ]),
    .executableTarget(name: "nio-server", dependencies: nio),
    .executableTarget(name: "nio-async-server", dependencies: nio),
    .executableTarget(
      name: "nio-coroutine-server",
      dependencies: nio + [
        .product(name: "Coroutine", package: "Coroutine"), .product(name: "CoroutineNIO", package: "Coroutine"),
      ]),
  ],
  swiftLanguageModes: [.v6]
)
