// swift-tools-version: 6.3
// Servers on SwiftNIO's event loops, with its codecs, whose handlers are coroutines, and a gRPC service that calls them. See
// the documentation of CoroutineNIO.
//
// A package of its own, so that the other examples don't fetch SwiftNIO. scripts/test-everybody.sh tests the programs.

import PackageDescription

let package = Package(
  name: "NIOExamples",
  dependencies: [
    .package(name: "Coroutine", path: "../..", traits: ["ASM", "NIO"]),
    .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
    .package(url: "https://github.com/apple/swift-nio-http2", from: "1.46.0"),
    .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.6"),
    .package(url: "https://github.com/grpc/grpc-swift-2", from: "2.4.3"),
    .package(url: "https://github.com/grpc/grpc-swift-nio-transport", from: "2.9.2"),
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
        .product(name: "NIOHTTP2", package: "swift-nio-http2"),
        .product(name: "NIOPosix", package: "swift-nio"),
        .product(name: "NIOSSL", package: "swift-nio-ssl"),
      ],
      swiftSettings: [.treatAllWarnings(as: .error)]),
    .executableTarget(
      name: "grpc-words",
      dependencies: [
        .product(name: "Coroutine", package: "Coroutine"),
        .product(name: "GRPCCore", package: "grpc-swift-2"),
        .product(name: "GRPCNIOTransportHTTP2Posix", package: "grpc-swift-nio-transport"),
      ],
      swiftSettings: [.treatAllWarnings(as: .error)]),
  ],
  swiftLanguageModes: [.v6]
)
