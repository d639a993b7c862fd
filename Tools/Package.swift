// swift-tools-version: 6.3
// SPDX-License-Identifier: Apache-2.0
// The commands of the package above, in a package of their own: users of the libraries don't get what only commands
// need.
//
//     swift build -c release --package-path Tools --product coroutine-dump
//
// One build reads programs of any context backend.

import PackageDescription

let package = Package(
  name: "Tools",
  products: [.executable(name: "coroutine-dump", targets: ["coroutine-dump"])],
  dependencies: [
    .package(name: "Coroutine", path: ".."),
    .package(url: "https://github.com/apple/swift-argument-parser", exact: "1.8.2"),
  ],
  targets: [
    .executableTarget(
      name: "coroutine-dump",
      dependencies: [
        .product(name: "CoroutineDebug", package: "Coroutine"),
        .product(name: "CoroutineInspection", package: "Coroutine"),
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
      ],
      swiftSettings: [.treatAllWarnings(as: .error)])
  ],
  swiftLanguageModes: [.v6]
)
