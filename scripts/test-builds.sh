#!/usr/bin/env bash
# Builds a program that uses the runtime (Tests/Builds) in ways that change what the compiler and the linker keep, and runs it.
# The table in docs/platforms.md says what else was tried, and what comes out. Two builds, each of which tries several:
#
#   optimised by the linker (full LTO), with -Ounchecked, and Swift's libraries inside
#   instrumented for coverage; linked again as a static executable, and without debug information
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/steps.sh

package=$(mktemp -d)
trap 'rm -rf "$package"' EXIT
export package
cp -r Tests/Builds "$package/Sources"

cat > "$package/Package.swift" << END
// swift-tools-version: 6.3
import PackageDescription

let package = Package(
  name: "Dependent",
  dependencies: [.package(name: "Coroutine", path: "$PWD")],
  targets: [
    .executableTarget(
      name: "Dependent",
      dependencies: [
        .product(name: "Coroutine", package: "Coroutine"),
        .product(name: "CoroutineIO", package: "Coroutine"),
      ], path: "Sources")
  ]
)
END

# Options that are the linker's alone follow the name of the program: SwiftPM does not link again for them.
build_and_run() {  # build_and_run <folder> <option>...
  local options=(--package-path "$package" --scratch-path "$package/$1" "${@:2}") program output
  rm -f "$package/$1"/*/*/Dependent
  swift build "${options[@]}" || return
  program=$(swift build "${options[@]}" --show-bin-path)/Dependent
  output=$(LLVM_PROFILE_FILE=$package/profile "$program")
  [[ $output == "ASM 6 hello 100 0 "*Dictionary* ]] || { printf 'error: it printed "%s"\n' "$output"; return 1; }
}

has_profile() { build_and_run debug --enable-code-coverage && [[ -s $package/profile ]]; }

# The C library says that it loads libraries for host names; that is no matter here.
is_static() {
  build_and_run debug --enable-code-coverage -Xswiftc -static-executable 2>&1 | sed '/warning: Using .* in statically linked/d' &&
    ! readelf --program-headers "$package"/debug/*/*/Dependent | grep -q INTERP
}

export -f build_and_run has_profile is_static

start_step "full LTO, -Ounchecked, static libraries of Swift" bash -c \
  "build_and_run optimised --configuration release --experimental-lto-mode=full -Xswiftc -Ounchecked --static-swift-stdlib"
step "coverage" bash -c has_profile
step "a static executable" bash -c is_static
step "without debug information" bash -c "build_and_run debug --enable-code-coverage -Xlinker --strip-debug"
step "without symbols" bash -c "build_and_run debug --enable-code-coverage -Xlinker --strip-all"
steps_summary
