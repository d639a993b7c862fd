#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks the ways through the code of docs/ARCHITECTURE.md: each file that an item names must be there, and each function or
# type that it names must stand in one of the way's files. A way has six items at most, and as many files.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Each item on a line of its own: <heading>|<number>|<text>.
items=$(awk '
  /^## / { inside = /^## Ways through the code/ }
  !inside { next }
  /^\*\*/ { flush(); heading = $0; sub(/^\*\*/, "", heading); sub(/[.,:]?\*\*.*/, "", heading); next }
  /^[0-9]+\. / { flush(); number = $1; sub(/\..*/, "", number); text = $0; next }
  /^   [^ ]/ { text = text " " $0; next }
  { flush() }
  END { flush() }
  function flush() { if (text != "") print heading "|" number "|" text; text = "" }' docs/ARCHITECTURE.md)

# file_of <path>: where it is.
file_of() {
  local root
  for root in Sources/Coroutine Sources; do
    if [[ -f $root/$1 ]]; then printf '%s/%s\n' "$root" "$1"; return; fi
  done
  find Sources -path "*/$1" -type f | head -n 1
}

failed=0
fail() { printf 'ways: %s, %s: %s\n' "$1" "$2" "$3" >&2; failed=1; }

declare -A files=()  # those of a way, by its heading
while IFS='|' read -r heading number text; do
  if ((number > 6)); then fail "$heading" "$number" "a way has six items at most"; fi
  while IFS= read -r word; do
    file=$(file_of "$word")
    if [[ -n $file ]]; then files[$heading]+=$file$'\n'; else fail "$heading" "$number" "there is no file $word"; fi
  done < <(grep -oE '`[^`]+\.(swift|h|c)`' <<< "$text" | tr -d '`')
done <<< "$items"
while IFS='|' read -r heading number text; do
  mapfile -t searched <<< "${files[$heading]%$'\n'}"
  while IFS= read -r word; do
    grep -qw -e "${word##*.}" "${searched[@]}" || fail "$heading" "$number" "$word is in none of the files that the way names"
  done < <(grep -oE '`[A-Za-z_][A-Za-z0-9_.]*`' <<< "$text" | tr -d '`' | grep -vE '\.(swift|h|c)$')
done <<< "$items"
for heading in "${!files[@]}"; do
  count=$(printf '%s' "${files[$heading]}" | sort -u | wc -l)
  if ((count > 6)); then fail "$heading" "all items" "it passes through $count files, and a way has six at most"; fi
done
if [[ -z $items ]]; then printf 'ways: there are none in docs/ARCHITECTURE.md\n' >&2; failed=1; fi
exit "$failed"
