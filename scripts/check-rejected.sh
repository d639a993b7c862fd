#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Compiles the files of Tests/Rejected, which have code that the compiler must not accept from the library's users. It
# must refuse it where the comments say `expected-error`, with that message, and nowhere else.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/build-options.sh

set_build_options ASM debug
built=${1:-}
if [[ -z $built ]]; then
  if ! log=$(swift build "${build_options[@]}" --target Coroutine 2>&1); then
    printf '%s\n' "$log" >&2
    exit 1
  fi
  built=$(swift build "${build_options[@]}" --show-bin-path)
fi

modules=()
for folder in Sources/*; do
  map=$built/$(basename "$folder").build/module.modulemap
  if [[ -e $folder/include/module.modulemap ]]; then map=$folder/include/module.modulemap; fi
  if [[ -e $map ]]; then modules+=(-Xcc "-fmodule-map-file=$map" -Xcc "-I$folder/include"); fi
done

failed=0
passed=0
for file in Tests/Rejected/*.swift; do
  if swiftc -frontend -emit-sil -verify -verify-ignore-unrelated -swift-version 6 -parse-as-library -module-name Rejected -o /dev/null \
    -I "$built/Modules" "${modules[@]}" "$file"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
  fi
done
printf '%d passed, %d failed\n' "$passed" "$failed"
((failed == 0))
