// swift-tools-version: 6.3
// C database clients for coroutines: a wait on the client's descriptor is all that it takes. See the
// documentation of CoroutineIO.
//
// A package of its own, as it needs the libraries libpq and hiredis (Debian: libpq-dev, libhiredis-dev).
// scripts/clients.sh runs both programs with real servers.

import PackageDescription

let coroutine: [Target.Dependency] = [
  .product(name: "Coroutine", package: "Coroutine"), .product(name: "CoroutineIO", package: "Coroutine"),
]
let strict: [SwiftSetting] = [.treatAllWarnings(as: .error)]

let package = Package(
  name: "Clients",
  dependencies: [.package(name: "Coroutine", path: "../..")],
  targets: [
    .systemLibrary(name: "CLibPQ", pkgConfig: "libpq", providers: [.apt(["libpq-dev"])]),
    .systemLibrary(name: "CHiredis", providers: [.apt(["libhiredis-dev"])]),
    .target(name: "ConnectionPool", dependencies: coroutine, swiftSettings: strict),
    .executableTarget(
      name: "postgres-sums", dependencies: coroutine + ["ConnectionPool", "CLibPQ"], swiftSettings: strict),
    .executableTarget(
      name: "redis-counters", dependencies: coroutine + ["ConnectionPool", "CHiredis"], swiftSettings: strict),
  ],
  swiftLanguageModes: [.v6]
)
