#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# How many lines of the runtime and of its contexts the tests run: a table of the files, those with the most lines that were
# not run first, and the sum. What is not run, and why, is in docs/coverage.md.
#
#   scripts/coverage.sh            builds and runs the tests first
#   scripts/coverage.sh --lines FILE   the lines of one file that were not run, after that
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

flags=(--traits ASM --scratch-path .build-coverage)
folder=$(swift build "${flags[@]}" --show-bin-path)
program=$folder/CoroutinePackageTests.xctest
profile=$folder/coverage.profdata
# Of the toolchain: the format is that of its compiler.
tools=$(dirname "$(readlink -f "$(command -v swift)")")

if [[ ${1:-} == --lines ]]; then
  : "${2:?"--lines FILE"}"
  [[ -f $2 ]] || { printf 'coverage: there is no file %s\n' "$2" >&2; exit 2; }
  "$tools/llvm-cov" show "$program" -instr-profile="$profile" "$2" | grep -E '^ *[0-9]+\| +0\|' || true
  exit
fi

rm -rf "$folder/codecov"
mkdir -p .build-coverage
# Not the test that compares two dumps of a loop of one instruction, which has more where its lines are counted.
# SwiftPM adds up the profiles, too, and fails where a process was killed that was writing one: the tests' own last line tells.
swift test --disable-xctest --enable-code-coverage "${flags[@]}" --skip DumpAgreementTests > .build-coverage/tests.log 2>&1 || true
if ! grep -q 'Test run with .* passed after' .build-coverage/tests.log; then
  tail -n 20 .build-coverage/tests.log >&2
  exit 1
fi
# Those of the tests' own processes, too; one that was killed has left an incomplete one.
find "$folder/codecov" -name '*.profraw' -size +1k > "$folder/profiles"
"$tools/llvm-profdata" merge -sparse --failure-mode=all -f "$folder/profiles" -o "$profile"
mapfile -t sources < <(find Sources/Context* Sources/Coroutine -name '*.swift')
"$tools/llvm-cov" report "$program" -instr-profile="$profile" "${sources[@]}" > "$folder/report"
printf '%9s %9s  %s\n' 'not run' 'of' 'file'
awk '$1 ~ /\.swift$/ && $9 > 0 { printf "%9d %9d  %s\n", $9, $8, $1 }' "$folder/report" | sort -k1,1nr
awk '$1 == "TOTAL" { printf "%9d %9d  all: %s of the lines were run\n", $9, $8, $10 }' "$folder/report"
