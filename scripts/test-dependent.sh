#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes packages that depend on this one by path, as a user's package would, and runs them. First one without any trait,
# which means ASM. Then the server of the tutorial. Then a plugin. Then one with metrics, logs, spans and services, which
# the others must not even fetch. Last, one with what servers use, as target names are global to a graph: coroutines on
# SwiftNIO's event loops, servers of HTTPS and gRPC, and a program with packages that many programs use (Tests/Everybody), with
# each backend, chosen by its trait, and with two at once. With `short` these packages are resolved, but of them only SwiftNIO's
# are built: the rest takes longer than all else here.
#
#   scripts/test-dependent.sh [short]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/steps.sh
case ${1:-} in
  "") is_short=no ;;
  short) is_short=yes ;;
  *) printf 'unknown argument "%s": short, or none\n' "$1" >&2; exit 2 ;;
esac
readonly is_short

package=$(mktemp -d)
trap 'rm -rf "$package"' EXIT
mkdir "$package/Sources"

cat > "$package/Sources/main.swift" << 'END'
import Coroutine

let numbers = Generator<Int> { yield in
  for number in 1...3 { try yield(number) }
}
print(Coroutine.backendName, numbers.reduce(0, +))
END

cat > "$package/Package.swift" << END
// swift-tools-version: 6.3
import PackageDescription

let package = Package(
  name: "Dependent",
  dependencies: [.package(name: "Coroutine", path: "$PWD")],
  targets: [
    .executableTarget(
      name: "Dependent", dependencies: [.product(name: "Coroutine", package: "Coroutine")], path: "Sources")
  ]
)
END

expect_output() {  # expect_output <package> <expected>
  local output
  output=$(swift run --package-path "$1" --quiet Dependent 2> "$1/errors") || { cat "$1/errors"; return 1; }
  if [[ $output != "$2" ]]; then
    printf 'error: expected "%s", and it printed "%s"\n' "$2" "$output"
    return 1
  fi
}
export -f expect_output

mapfile -t backends < <(scripts/backends.sh)
step "without a trait" bash -c 'expect_output "$@"' bash "$package" "${backends[0]} 6"

fetches_nothing() {  # fetches_nothing <package>
  local fetched
  fetched=$(find "$1/.build/checkouts" -mindepth 1 -maxdepth 1)
  if [[ -n $fetched ]]; then
    printf 'error: without the traits Observability and NIO these were fetched:\n%s\n' "$fetched"
    return 1
  fi
}
export -f fetches_nothing
step "nothing is fetched without Observability and NIO" bash -c 'fetches_nothing "$@"' bash "$package"

# What a newcomer makes of the tutorial: its manifest and its program as they stand there, on another port.
tutorial=Sources/Coroutine/Coroutine.docc/FromNothingToAServer.md

block() {  # block <line>: the code block of the tutorial that has this line
  awk -v line="$1" '
    /^```swift/ { inside = 1; text = ""; next }
    /^```/ { inside = 0; if (found) { printf "%s", text; exit } }
    inside { text = text $0 "\n"; if (index($0, line)) found = 1 }' "$tutorial"
}

mkdir -p "$package/Sources/server"
block 'import PackageDescription' | sed "s|path: \"../Coroutine\"|name: \"Coroutine\", path: \"$PWD\"|" > "$package/Package.swift"
block 'runUntilComplete' | sed 's/port: 8080/port: 0/' > "$package/Sources/server/main.swift"

serves_and_is_dumped() {  # serves_and_is_dumped <package>
  swift build --package-path "$1" --quiet --product server
  "$(swift build --package-path "$1" --show-bin-path)/server" > "$1/output" 2> "$1/dump" &
  local server=$! port answer
  until port=$(sed -n 's/^listening on .*://p' "$1/output") && [[ -n $port ]]; do
    kill -0 "$server" || return
    sleep 0.05
  done
  exec 3<> "/dev/tcp/127.0.0.1/$port" 4<> "/dev/tcp/127.0.0.1/$port"
  printf 'GET /hello HTTP/1.1\r\nHost: a\r\n\r\nGET /bye HTTP/1.1\r\nConnection: close\r\n\r\n' >&3
  answer=$(timeout 60 cat <&3)
  # The other connection is silent. Its coroutine may not have begun yet.
  for _ in $(seq 300); do
    if grep -q 'readRequest' "$1/dump"; then break; fi
    kill -QUIT "$server" || return
    sleep 0.2
  done
  kill -TERM "$server"
  wait "$server"
  [[ $answer == *"You asked for /hello"*"You asked for /bye"* && $(tail -n 1 "$1/output") == stopped ]] &&
    grep -q 'readRequest' "$1/dump" ||
    { printf '%s\n' "$answer"; cat "$1/output" "$1/dump"; return 1; }
}
export -f serves_and_is_dumped
step "from nothing to a server" bash -c 'serves_and_is_dumped "$@"' bash "$package"
rm -r "$package/Sources/server"

# A plugin: the runtime in a shared library, loaded by a program that has none.
mkdir "$package/Plugin"
{
  printf 'import Coroutine\n\n@_cdecl("run") public func run() {\n'
  tail -n +3 "$package/Sources/main.swift"
  printf '}\n'
} > "$package/Plugin/Plugin.swift"
cat > "$package/Sources/main.swift" << 'END'
import Glibc

guard let library = dlopen(String(CommandLine.arguments[0].dropLast("Dependent".count)) + "libPlugin.so", RTLD_NOW),
  let run = dlsym(library, "run")
else { fatalError(String(cString: dlerror())) }
unsafeBitCast(run, to: (@convention(c) () -> Void).self)()
END
cat > "$package/Package.swift" << END
// swift-tools-version: 6.3
import PackageDescription

let package = Package(
  name: "Dependent",
  products: [.library(name: "Plugin", type: .dynamic, targets: ["Plugin"])],
  dependencies: [.package(name: "Coroutine", path: "$PWD")],
  targets: [
    .target(name: "Plugin", dependencies: [.product(name: "Coroutine", package: "Coroutine")], path: "Plugin"),
    .executableTarget(name: "Dependent", path: "Sources"),
  ]
)
END

run_plugin() {  # run_plugin <package> <expected>
  swift build --package-path "$1" --product Plugin && expect_output "$@"
}
export -f run_plugin
step "in a shared library" bash -c 'run_plugin "$@"' bash "$package" "ASM 6"

# The same, loaded by a program in C: there the thread-locals of Swift's libraries are elsewhere on each thread. The
# program closes the library while the pool's threads exist, and looks whether it is still there. Where nothing of it has run it
# must have gone: so nothing else than the runtime keeps it.
cat > "$package/Plugin/Plugin.swift" << 'END'
import Coroutine

enum Local {
  @TaskLocal static var number = 0
}

@_cdecl("run") public func run() {
  let pool = ThreadPool(threads: 3)
  let coroutines = (1...100).map { number in
    Coroutine(on: pool) {
      Local.$number.withValue(number) {
        for _ in 0..<20 { Coroutine.yield() }
        return Local.number == number
      }
    }
  }
  let right = coroutines.count { (try? $0.getBlocking()) == true }
  print(right, Local.number)
}
END
cat > "$package/main.c" << 'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int is_mapped(const char *path) {
  FILE *maps = fopen("/proc/self/maps", "r");
  if (!maps) return -1;
  const char *name = strrchr(path, '/') + 1;
  char line[4352];
  int found = 0;
  while (fgets(line, sizeof line, maps)) found |= strstr(line, name) != NULL;
  fclose(maps);
  return found;
}

int main(int count, char **arguments) {
  void *library = count > 1 ? dlopen(arguments[1], RTLD_NOW) : NULL;
  void (*run)(void) = library ? (void (*)(void))dlsym(library, "run") : NULL;
  if (!run || is_mapped(arguments[1]) != 1) return puts("the plugin can't be loaded");
  if (count == 2) run();
  dlclose(library);
  usleep(200000);
  puts(is_mapped(arguments[1]) ? "mapped" : "gone");
  return 0;
}
END

run_in_c() {  # run_in_c <package>
  swift build --package-path "$1" --product Plugin && cc -o "$1/main" "$1/main.c" -ldl || return
  local library output
  library=$(swift build --package-path "$1" --show-bin-path)/libPlugin.so
  output=$("$1/main" "$library" && "$1/main" "$library" unused) || return
  [[ $output == $'100 0\nmapped\ngone' ]] || { printf 'error: it printed "%s"\n' "$output"; return 1; }
}
export -f run_in_c
step "in a shared library of a program in C" bash -c 'run_in_c "$@"' bash "$package"

# The articles that need other packages than this one, as a target.
write_pages() {  # write_pages <folder> <catalog>
  local page
  mkdir "$1"
  for page in "Sources/$2/$2.docc"/*.md; do scripts/check-docs.sh --source "$page" > "$1/$(basename "$page" .md).swift"; done
}

cat > "$package/Package.swift" << END
// swift-tools-version: 6.3
import PackageDescription

let dependencies: [Target.Dependency] = [
  .product(name: "CoroutineObservability", package: "Coroutine"),
  .product(name: "CoroutineIO", package: "Coroutine"),
  .product(name: "Coroutine", package: "Coroutine"),
  .product(name: "Logging", package: "swift-log"),
  .product(name: "MetricsTestKit", package: "swift-metrics"),
  .product(name: "Tracing", package: "swift-distributed-tracing"),
  .product(name: "InMemoryTracing", package: "swift-distributed-tracing"),
  .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
]

let package = Package(
  name: "Dependent",
  dependencies: [
    .package(name: "Coroutine", path: "$PWD", traits: ["Observability"]),
    .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
    .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
    .package(url: "https://github.com/apple/swift-distributed-tracing", from: "1.7.3"),
    .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
  ],
  targets: [
    .executableTarget(name: "Dependent", dependencies: dependencies, path: "Sources"),
    .target(
      name: "Pages", dependencies: dependencies + [.product(name: "CoroutineDebug", package: "Coroutine")], path: "Pages"),
  ]
)
END
cp Tests/Observability/*.swift "$package/Sources/"
write_pages "$package/Pages" CoroutineObservability
compile_pages() {  # compile_pages <package>
  swift build --package-path "$1" --target Pages > "$1/errors" 2>&1 || { cat "$1/errors"; return 1; }
}
export -f compile_pages
step "traits: [Observability]" bash -c 'expect_output "$@"' bash "$package" "all as expected"
step "its articles" bash -c 'compile_pages "$@"' bash "$package"

# In one graph with what servers use. In a folder of its own, since these are built without debug information, which takes
# less time.
everybody=$(mktemp -d)
trap 'rm -rf "$package" "$everybody"' EXIT
cp -r Tests/NIO "$everybody/Checks"
cp -r Tests/Everybody "$everybody/Everybody"
cp -r Examples/NIO/Sources/http-server "$everybody/Server"
cp -r Examples/NIO/Sources/grpc-words "$everybody/Words"
write_pages "$everybody/Pages" CoroutineNIO

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

stop_server() {  # stop_server <package>
  kill -TERM "$server"
  wait "$server"
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
