#!/usr/bin/env bash
# Builds the examples and runs them: each has to print what its file in Examples/Output says.
#
#   scripts/examples.sh            on ASM
#   scripts/examples.sh Boost      on another backend
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/steps.sh

# In the demo's folder, whose build is used again.
options=(--package-path Examples --scratch-path ".build-demo-${1:-ASM}" --traits "${1:-ASM}" --configuration release)

expect_output() {  # expect_output <program> <file>
  "$1" | diff --unified "$2" - || {
    printf 'error: %s did not print what %s says\n' "$1" "$2"
    return 1
  }
}
export -f expect_output

step "build" swift build "${options[@]}"
programs=$(swift build "${options[@]}" --show-bin-path)
for output in Examples/Output/*.txt; do
  name=$(basename "$output" .txt)
  step "$name" bash -c 'expect_output "$@"' bash "$programs/$name" "$output"
done
steps_summary
