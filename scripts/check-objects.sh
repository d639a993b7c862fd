#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What each object file says to the linker about the protection of memory and of control flow. One file that says nothing
# takes a protection from the whole program, or asks for one under which a switch of contexts crashes:
#
# - Each file says that it needs no executable stack.
# - The assembly for aarch64 has landing pads and signs return addresses, and says so (BTI, PAC).
# - The assembly for x86-64 claims no shadow stack and no landing pads (SHSTK, IBT), and that for aarch64 no guarded control
#   stack (GCS): a switch leaves those stacks where they are. So the linker takes them from the program.
#
#   scripts/check-objects.sh <object or build folder>...
#
# One line for each wrong file, then the sum of the files.
set -euo pipefail

# complaint <object>: what is wrong with it; nothing if it is right.
complaint() {
  LC_ALL=C readelf --wide --file-header --section-headers --notes "$1" | awk -v name="${1##*/}" '
    / Machine: / { is_arm = /AArch64/; is_intel = /X86-64/ }
    /\] \.note\.GNU-stack / {
      says_stack = 1
      # Its address, place, size, entries, then the flags, if there are any, before three numbers.
      sub(/.*\.note\.GNU-stack +[A-Z_]+ /, "")
      if (NF > 7 && $5 ~ /X/) print "asks for an executable stack"
    }
    / feature: / { sub(/.* feature: /, ""); claims = claims " " $0 }
    END {
      if (!says_stack) print "does not say that it needs no executable stack"
      if (name !~ /^context_.*\.S\.o$/) exit  # of a backend
      if (is_arm && name !~ /x86_64/ && !(claims ~ /BTI/ && claims ~ /PAC/)) print "does not claim BTI and PAC"
      # (An older readelf does not know the bit of GCS.)
      if (is_arm && claims ~ /GCS|unknown/ || is_intel && claims ~ /IBT|SHSTK/) print "claims" claims
    }'
}

passed=0
failed=0
check() {
  local wrong
  if ! wrong=$(complaint "$1" 2>&1); then wrong="can't be read: $wrong"; fi
  if [[ -z $wrong ]]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'error: %s %s\n' "$1" "${wrong//$'\n'/, }"
  fi
}

for place; do
  mapfile -t objects < <(find "$place" -name '*.o' -type f)
  if ((${#objects[@]} == 0)); then
    printf 'error: there is no object file in %s\n' "$place"
    failed=$((failed + 1))
  fi
  for object in "${objects[@]}"; do check "$object"; done
done

printf '%d passed, %d failed\n' "$passed" "$failed"
((failed == 0))
