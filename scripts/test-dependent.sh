#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes packages that depend on this one by path, as a user's package would, and runs them. First one without any trait,
# which means ASM. Then the server of the tutorial. Then a plugin. Last, one with metrics, logs, spans and services, which
# the others must not even fetch. (scripts/test-everybody.sh has those on SwiftNIO.)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/steps.sh
if (($# > 0)); then
  printf 'unknown argument "%s": it takes none\n' "$1" >&2
  exit 2
fi

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

# What a newcomer makes of the tutorial: its manifest and its programs as they stand there, the server on another port.
tutorial=Sources/Coroutine/Coroutine.docc/FromNothingToAServer.md

block() {  # block <line>: the code block of the tutorial that has this line
  awk -v line="$1" '
    /^```swift/ { inside = 1; text = ""; next }
    /^```/ { inside = 0; if (found) { printf "%s", text; exit } }
    inside { text = text $0 "\n"; if (index($0, line)) found = 1 }' "$tutorial"
}

mkdir -p "$package/Sources/server"
block 'import PackageDescription' | sed "s|path: \"../Coroutine\"|name: \"Coroutine\", path: \"$PWD\"|" > "$package/Package.swift"
block 'let greeting' > "$package/Sources/server/main.swift"

says_hello() {  # says_hello <package>
  swift build --package-path "$1" --quiet --product server || return
  [[ $("$(swift build --package-path "$1" --show-bin-path)/server") == hello ]]
}
export -f says_hello
step "the first coroutine" bash -c 'says_hello "$@"' bash "$package"

block 'listener.serve' | sed 's/port: 8080/port: 0/' > "$package/Sources/server/main.swift"

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
  # It ends by itself after SIGTERM, with 0, and may crash after its last line.
  wait "$server" || { printf 'error: the server ended with %d\n' "$?"; cat "$1/dump"; return 1; }
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
# program closes the library while the pool's threads exist, and looks whether it is still there; so it does where the library
# has only run a coroutine on a thread of the program's, which ends after that. Where nothing of it has run it must have gone: so
# nothing else than the runtime keeps it.
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

@_cdecl("run_on_this_thread") public func runOnThisThread() {
  print((try? runUntilComplete { 1 }) ?? 0)
}
END
cat > "$package/main.c" << 'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
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

static void *run_and_close(void *library) {
  void (*run)(void) = (void (*)(void))dlsym(library, "run_on_this_thread");
  if (run) run();
  dlclose(library);
  return NULL;
}

int main(int count, char **arguments) {
  void *library = count == 3 ? dlopen(arguments[1], RTLD_NOW) : NULL;
  void (*run)(void) = library ? (void (*)(void))dlsym(library, "run") : NULL;
  if (!run || is_mapped(arguments[1]) != 1) return puts("the plugin can't be loaded");
  if (strcmp(arguments[2], "thread") == 0) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, run_and_close, library) != 0) return 1;
    pthread_join(thread, NULL);
  } else {
    if (strcmp(arguments[2], "pool") == 0) run();
    dlclose(library);
    usleep(200000);
  }
  puts(is_mapped(arguments[1]) ? "mapped" : "gone");
  return 0;
}
END

run_in_c() {  # run_in_c <package>
  swift build --package-path "$1" --product Plugin && cc -o "$1/main" "$1/main.c" -ldl -pthread || return
  local library output
  library=$(swift build --package-path "$1" --show-bin-path)/libPlugin.so
  output=$("$1/main" "$library" pool && "$1/main" "$library" thread && "$1/main" "$library" unused) || return
  [[ $output == $'100 0\nmapped\n1\nmapped\ngone' ]] || { printf 'error: it printed "%s"\n' "$output"; return 1; }
  # A library whose constructor blocks for coroutines of that one: the dynamic linker's lock is held meanwhile.
  printf 'void run(void);\n__attribute__((constructor)) static void begin(void) { run(); }\n' > "$1/early.c"
  cc -shared -fPIC -o "$1/libearly.so" "$1/early.c" "$library" -Wl,-rpath,"${library%/*}" || return
  output=$("$1/main" "$1/libearly.so" unused) || return
  [[ $output == $'100 0\ngone' ]] || { printf 'error: with a constructor it printed "%s"\n' "$output"; return 1; }
}
export -f run_in_c
step "in a shared library of a program in C" bash -c 'run_in_c "$@"' bash "$package"

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
scripts/check-docs.sh --sources CoroutineObservability "$package/Pages"
compile_pages() {  # compile_pages <package>
  swift build --package-path "$1" --target Pages > "$1/errors" 2>&1 || { cat "$1/errors"; return 1; }
}
export -f compile_pages
step "traits: [Observability]" bash -c 'expect_output "$@"' bash "$package" "all as expected"
step "its articles" bash -c 'compile_pages "$@"' bash "$package"
steps_summary
