#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks that Sources/Coroutine/Core, the coroutine and its waits, stays under 2,500 lines and has no word of a primitive
# that is made from it, neither in code nor in comments.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly most=2500
# Any part of a name, and whole words. (Parking has a semaphore of threads, and an `Actor` is Swift's.)
readonly parts='channel|promise|mutex|mailbox|generator|semaphore|broadcast|message|supervis|ticker|readwritelock|waitgroup'
readonly words='actors?|scopes?|selects?|barriers?|conditions?|supervisors?|ActorC[a-z]*'

lines=$(cat Sources/Coroutine/Core/*.swift | wc -l)
failed=0
if ((lines >= most)); then
  printf 'core: Sources/Coroutine/Core has %d lines: less than %d is the limit. What of it belongs into another folder?\n' \
    "$lines" "$most" >&2
  failed=1
fi
named=$(grep -n '' Sources/Coroutine/Core/*.swift | sed 's/isolated (any Actor)?//' |
  grep -i -E "$parts|(^|[^A-Za-z_])($words)([^A-Za-z_]|\$)" | grep -v ThreadSemaphore || true)
if [[ -n $named ]]; then
  printf 'core: Core names a primitive that is made from it:\n%s\n' "$named" >&2
  failed=1
fi
exit "$failed"
