#!/usr/bin/env bash
# Makes packages that depend on this one by path, as a user's would, and runs them: a backend chosen by its trait, two
# at once, and none at all, which means ASM.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/steps.sh

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

write_manifest() {  # write_manifest <traits>
  cat > "$package/Package.swift" << END
// swift-tools-version: 6.3
import PackageDescription

let package = Package(
  name: "Dependent",
  dependencies: [.package(name: "Coroutine", path: "$PWD", traits: [$1])],
  targets: [
    .executableTarget(
      name: "Dependent", dependencies: [.product(name: "Coroutine", package: "Coroutine")], path: "Sources")
  ]
)
END
}

expect_output() {  # expect_output <package> <expected>
  local output
  output=$(swift run --package-path "$1" --quiet Dependent) || return
  if [[ $output != "$2" ]]; then
    printf 'error: expected "%s", and it printed "%s"\n' "$2" "$output"
    return 1
  fi
}
export -f expect_output

check() {  # check <traits> <backend>
  write_manifest "$1"
  step "traits: [$1]" bash -c 'expect_output "$@"' bash "$package" "$2 6"
}

check '"Boost"' Boost
check '"Boost", "Ucontext"' Ucontext
check '' ASM
steps_summary
