#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Tests that arrows.sh finds what it should find. In a copy of the sources, with one change at a time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
passed=0 failed=0

# expect <found|nothing> <what> <file> <text>: checks the sources with one more file, which has the text.
expect() {
  local expected=$1 what=$2 file=$folder/Sources/$3 found=nothing output
  mkdir -p "$(dirname "$file")"
  printf '%s\n' "$4" > "$file"
  output=$(ARROWS_SOURCES=$folder/Sources scripts/arrows.sh) || found=found
  rm "$file"
  rmdir --ignore-fail-on-non-empty "$(dirname "$file")"
  if [[ $found == "$expected" ]]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'arrows: %s: expected %s\n%s\n' "$what" "$expected" "$output" >&2
  fi
}

cp -r Sources "$folder/Sources"
core=Coroutine/Core/Seeded.swift
expect nothing "a reference to a folder below" $core 'func seeded(_ timer: TimerNode) {}'
expect nothing "the other half of the circle that is there on purpose" $core 'func seeded(_ pool: PoolCore) {}'
expect found "a type of a folder above" $core 'func seeded(_ channel: ChannelStorage<Int>) {}'
expect found "its name in an interpolation" $core 'let seeded = "\(PromiseStateMachine()) is a promise"'
expect found "an extension of it" $core 'extension ScopeStorage { var seeded: Int { 0 } }'
expect found "a member that a folder above adds to a type" $core 'func seeded(_ core: CoroutineCore) { _ = core.hasOwnDeadline }'
expect found "a function of a folder above" $core 'func seeded() { withTimeout(.seconds(1)) { } }'
expect nothing "its name in a comment" $core '// As ChannelStorage does.'
expect nothing "its name in a text" $core 'let seeded = "ChannelStorage"'
expect found "a function of a folder above, by its name in C" Coroutine/Timer/Seeded.swift \
  'func seeded() { coroutine_publish_debug_layout() }'
expect found "another module, above" $core 'func seeded(_ dump: CoroutineDump) {}'
expect found "a folder that has no place in the order" Coroutine/Seeded/Seeded.swift 'struct Seeded {}'

printf '%d passed, %d failed\n' "$passed" "$failed"
((failed == 0))
