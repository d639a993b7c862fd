// swift-tools-version: 6.3
// HTTP servers with a fixed answer, to be compared by scripts/bench-io.sh: coroutines, and SwiftNIO's handlers.

import PackageDescription

let package = Package(
  name: "BenchmarksIO",
  dependencies: [
    .package(name: "Coroutine", path: "../.."),
    .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
  ],
  targets: [
    .executableTarget(
      name: "coroutine-server",
      dependencies: [
        .product(name: "Coroutine", package: "Coroutine"), .product(name: "CoroutineIO", package: "Coroutine"),
      ]),
    .executableTarget(
      name: "nio-server",
      dependencies: [
        .product(name: "NIOCore", package: "swift-nio"), .product(name: "NIOPosix", package: "swift-nio"),
      ]),
  ],
  swiftLanguageModes: [.v6]
)
