#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A package that depends on this one by path and on what servers use, in one graph, as target names are global to it: coroutines
# on SwiftNIO's event loops, servers of HTTPS and gRPC, and a program with packages that many programs use (Tests/Everybody),
# with each backend, chosen by its trait, and with two at once. With `short` all of it is resolved, but only what needs no more
# than SwiftNIO is built and run. All of it takes some 23 minutes beside other work on two processors.
#
#   scripts/test-everybody.sh [short]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/steps.sh
case ${1:-} in
  "") is_short=no ;;
  short) is_short=yes ;;
  *) printf 'unknown argument "%s": short, or none\n' "$1" >&2; exit 2 ;;
esac
readonly is_short
mapfile -t backends < <(scripts/backends.sh)

# Built without debug information, which takes less time.
everybody=$(mktemp -d)
trap 'rm -rf "$everybody"' EXIT
cp -r Tests/NIO "$everybody/Checks"
cp -r Tests/Everybody "$everybody/Everybody"
cp -r Examples/NIO/Sources/http-server "$everybody/Server"
cp -r Examples/NIO/Sources/grpc-words "$everybody/Words"
scripts/check-docs.sh --sources CoroutineNIO "$everybody/Pages"

write_everybody() {  # write_everybody <traits>
  cat > "$everybody/Package.swift" << END
// swift-tools-version: 6.3
import PackageDescription

let coroutine: [Target.Dependency] = ["Coroutine", "CoroutineDebug", "CoroutineIO", "CoroutineNIO"].map {
  .product(name: \$0, package: "Coroutine")
}
let nio: [Target.Dependency] = ["NIOCore", "NIOHTTP1", "NIOPosix"].map { .product(name: \$0, package: "swift-nio") }
let http2: [Target.Dependency] = [
  .product(name: "NIOHTTP2", package: "swift-nio-http2"), .product(name: "NIOSSL", package: "swift-nio-ssl"),
]

let package = Package(
  name: "Everybody",
  dependencies: [
    .package(name: "Coroutine", path: "$PWD", traits: [$1]),
    .package(url: "https://github.com/apple/swift-configuration", from: "1.4.0", traits: []),
    .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
    .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
    .package(url: "https://github.com/apple/swift-nio-http2", from: "1.46.0"),
    .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.6"),
    .package(url: "https://github.com/apple/swift-system", from: "1.8.1"),
    .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
    .package(url: "https://github.com/grpc/grpc-swift-2", from: "2.4.3"),
    .package(url: "https://github.com/grpc/grpc-swift-nio-transport", from: "2.9.2"),
    .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1"),
    .package(url: "https://github.com/swift-server/async-http-client", from: "1.37.0"),
    .package(url: "https://github.com/swiftlang/swift-subprocess", from: "1.0.2", traits: []),
  ],
  targets: [
    .target(name: "Pages", dependencies: coroutine + nio + http2, path: "Pages"),
    .executableTarget(name: "Dependent", dependencies: coroutine + nio + http2, path: "Checks"),
    .executableTarget(name: "http-server", dependencies: coroutine + nio + http2, path: "Server"),
    .executableTarget(
      name: "grpc-words",
      dependencies: coroutine + [
        .product(name: "GRPCCore", package: "grpc-swift-2"),
        .product(name: "GRPCNIOTransportHTTP2Posix", package: "grpc-swift-nio-transport"),
      ], path: "Words"),
    .executableTarget(
      name: "Everybody",
      dependencies: coroutine + nio + [
        .product(name: "AsyncHTTPClient", package: "async-http-client"),
        .product(name: "Configuration", package: "swift-configuration"),
        .product(name: "GRDB", package: "GRDB.swift"),
        .product(name: "Hummingbird", package: "hummingbird"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "Subprocess", package: "swift-subprocess"),
        .product(name: "SystemPackage", package: "swift-system"),
      ], path: "Everybody"),
  ]
)
END
}

# Warnings about the other packages go to `errors`, which is shown where the build fails.
build_everybody() {  # build_everybody <package> <argument>...
  local options=(--package-path "$1" --disable-index-store -Xswiftc -gnone -Xcc -g0)
  swift build "${options[@]}" "${@:2}" > "$1/errors" 2>&1 || { cat "$1/errors"; return 1; }
}

run_everybody() {  # run_everybody <package> <program> <expected>
  local output
  build_everybody "$1" --product "$2" || return
  output=$("$1/.build/debug/$2" 2> "$1/errors") || { printf '%s\n' "$output"; cat "$1/errors"; return 1; }
  if [[ $output != "$3" ]]; then
    printf 'error: expected "%s", and it printed "%s"\n' "$3" "$output"
    return 1
  fi
}
export -f build_everybody run_everybody

write_everybody '"NIO"'
# A name that two packages have is refused whatever is built of them.
if [[ $is_short == yes ]]; then targets=(--target Pages); else targets=(); fi
step "everybody's packages, and the articles" bash -c 'build_everybody "$@"' bash "$everybody" "${targets[@]}"
step "on event loops" bash -c 'run_everybody "$@"' bash "$everybody" Dependent "all as expected"

# A future's `wait()` in a coroutine: at run time told once. In `async` code refused, as NIO's own is.
is_told() {  # is_told <package>
  [[ $(grep -c 'EventLoopFuture.wait() at Dependent/FutureChecks.swift:[0-9]*, in coroutine .* get()' "$1/errors") == 1 ]] ||
    { cat "$1/errors"; return 1; }
}

refuses() {  # refuses <package> <code> <pattern of the error>
  printf 'import CoroutineNIO\nimport NIOCore\n\n%s\n' "$2" > "$1/Checks/Refused.swift"
  if build_everybody "$1" --product Dependent > "$1/refusal"; then printf 'error: not refused\n'; return 1; fi
  rm "$1/Checks/Refused.swift"
  grep "error: .*$3" "$1/refusal" || { cat "$1/refusal"; return 1; }
}
export -f is_told refuses
step "wait() in a coroutine is told" bash -c 'is_told "$@"' bash "$everybody"
step "wait() in async code is refused" bash -c 'refuses "$@"' bash "$everybody" \
  'func awaitedWait(_ future: EventLoopFuture<Int>) async throws -> Int { try future.wait() }' \
  "'wait' is unavailable from asynchronous contexts.* get()"
# It would run beside its actor.
step "a coroutine of the main actor's on a loop is refused" bash -c 'refuses "$@"' bash "$everybody" \
  '@MainActor func leaves(_ loop: any EventLoop) { _ = loop.makeFutureWithCoroutine { @MainActor in 3 } }' \
  'risks causing data races'

# Sets `server` and `port`.
start_server() {  # start_server <package> <argument>...
  rm -f "$1/output"  # of the server before
  "$1/.build/debug/http-server" 0 "${@:2}" > "$1/output" &
  server=$!
  until port=$(sed -n 's/^listening on .*://p' "$1/output") && [[ -n $port ]]; do
    kill -0 "$server" || return
    sleep 0.05
  done
}

# It ends by itself after SIGTERM, with 0, and may crash after its last line.
stop_server() {  # stop_server <package>
  kill -TERM "$server"
  wait "$server" || { printf 'error: the server ended with %d\n' "$?"; return 1; }
  [[ $(tail -n 1 "$1/output") == stopped ]]
}

serve_http() {  # serve_http <package>
  local answers
  build_everybody "$1" --product http-server && start_server "$1" || return
  exec 3<> "/dev/tcp/127.0.0.1/$port"
  printf 'GET /hello HTTP/1.1\r\nHost: a\r\n\r\nPOST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc' >&3
  printf 'GET /numbers/200000 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n' >&3
  answers=$(timeout 60 cat <&3)
  stop_server "$1" && [[ $answers == *"Hello, world!"*"3 bytes"*"199999"* ]]
}

# By HTTP/2, then by HTTP/1.1.
serve_https() {  # serve_https <package>
  local answer
  openssl req -x509 -newkey rsa:2048 -noenc -subj /CN=localhost -out "$1/certificate.pem" -keyout "$1/key.pem" || return
  start_server "$1" "$1/certificate.pem" "$1/key.pem" || return
  answer=$("$1/.build/debug/Everybody" "$port") || { stop_server "$1"; return 1; }
  stop_server "$1" && [[ $answer == *" all as expected" ]]
}
export -f start_server stop_server serve_http serve_https
step "an HTTP server on NIO" bash -c 'serve_http "$@"' bash "$everybody"
if [[ $is_short == yes ]]; then
  steps_summary
  exit
fi
step "a gRPC service" bash -c 'run_everybody "$@"' bash "$everybody" grpc-words "100 right answers to 100 calls"
step "HTTP/2 and TLS on NIO" bash -c 'serve_https "$@"' bash "$everybody"

check() {  # check <traits> <backend>
  write_everybody "$1, \"NIO\""
  step "everybody, traits: [$1]" bash -c 'run_everybody "$@"' bash "$everybody" Everybody "$2 all as expected"
}

step "everybody" bash -c 'run_everybody "$@"' bash "$everybody" Everybody "${backends[0]} all as expected"
for backend in "${backends[@]:1:${#backends[@]}-2}"; do check "\"$backend\"" "$backend"; done
# The later one in the list wins.
last=${backends[-1]}
check "\"${backends[1]}\", \"$last\"" "$last"
step "several backends are told" grep -q "${backends[1]} and $last: $last is used" "$everybody/errors"
steps_summary
