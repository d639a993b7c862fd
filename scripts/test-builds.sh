#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds a program that uses the runtime (Tests/Builds) in ways that change what the compiler and the linker keep, and runs it.
# The table in docs/platforms.md says what else was tried, and what comes out. Two builds, each of which tries several:
#
#   optimised by the linker (full LTO), with -Ounchecked, and Swift's libraries inside
#   a static executable, instrumented for coverage; linked again without debug information, and without symbols
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

# SwiftPM does not link again for other options of the linker. Glibc has a warning about what a static executable cannot do by
# itself.
build_and_run() {  # build_and_run <folder> <option>...
  local options=(--package-path "$package" --scratch-path "$package/$1" "${@:2}") log=$package/$1.log program output
  rm -f "$package/$1"/*/*/Dependent
  swift build "${options[@]}" > "$log" 2>&1 || { cat "$log"; return 1; }
  sed '/ in statically linked applications requires /d' "$log"
  program=$(swift build "${options[@]}" --show-bin-path)/Dependent
  output=$(LLVM_PROFILE_FILE=$package/profile "$program") || return
  [[ $output == "ASM 6 hello 100 0 "*Dictionary* ]] || { printf 'error: it printed "%s"\n' "$output"; return 1; }
}

static_with_coverage() { build_and_run static --enable-code-coverage -Xswiftc -static-executable "$@"; }

is_static() {
  static_with_coverage && [[ -s $package/profile ]] || return
  if readelf --program-headers "$package"/static/*/*/Dependent | grep INTERP; then return 1; fi
}

export -f build_and_run static_with_coverage is_static

start_step "full LTO, -Ounchecked" bash -c \
  "build_and_run optimised --configuration release --experimental-lto-mode=full -Xswiftc -Ounchecked --static-swift-stdlib"
start_step "static executable, coverage" bash -c is_static
end_steps
step "without debug information" bash -c "static_with_coverage -Xlinker --strip-debug"
step "without symbols" bash -c "static_with_coverage -Xlinker --strip-all"
steps_summary
