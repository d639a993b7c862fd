// swift-tools-version: 6.3
// Servers on SwiftNIO's event loops, with its codecs, whose handlers are coroutines. See the documentation of CoroutineNIO.
//
// A package of its own, so that the other examples don't fetch SwiftNIO. scripts/test-dependent.sh tests the server.

import PackageDescription

let package = Package(
  name: "NIOExamples",
  dependencies: [
    .package(name: "Coroutine", path: "../..", traits: ["ASM", "NIO"]),
    .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
  ],
  targets: [
    .executableTarget(
      name: "http-server",
      dependencies: [
        .product(name: "Coroutine", package: "Coroutine"),
        .product(name: "CoroutineIO", package: "Coroutine"),
        .product(name: "CoroutineNIO", package: "Coroutine"),
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOHTTP1", package: "swift-nio"),
        .product(name: "NIOPosix", package: "swift-nio"),
      ],
      swiftSettings: [.treatAllWarnings(as: .error)])
  ],
  swiftLanguageModes: [.v6]
)
