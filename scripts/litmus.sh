#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the litmus tests of Tests/Litmus by herd7, which knows the memory models of C11, AArch64 and x86, and compares with
# the kept results, Tests/Litmus/expected. docs/memory-model.md has the table of them.
#
#   scripts/litmus.sh [--renew] [<test>]...     of these only; --renew: writes all results anew, to be read in the diff
#   scripts/litmus.sh --names                   only whether the files and functions that the tests name are there: needs no herd7
#   HERD7="herd7 -set-libdir /opt/herd/libdir" scripts/litmus.sh
#
# A test names in its head what must not happen, and edits of its own text (lines `Without ...: <sed script>`) that each take one
# fence or order away. Each edit is a test too: there it must happen. So a test that would not see a mistake is found.
# One line for each that differs, then the sum. Without herd7 nothing runs: exit code 2.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

read -ra herd <<< "${HERD7:-herd7}"
readonly folder=Tests/Litmus
renews=no
if [[ ${1:-} == --renew ]]; then renews=yes; shift; fi

# missing_names <test>: prints what its head names of the code that it models, a file or a function, and is not there.
missing_names() {
  local word
  while IFS= read -r word; do
    case $word in
      *.swift | *.c | *.h)
        compgen -G "Sources/$word" > /dev/null || compgen -G "Sources/*/$word" > /dev/null ||
          compgen -G "Sources/*/include/$word" > /dev/null ;;
      coroutine_*) grep -rqw -e "$word" Sources ;;
      *) grep -rqE "(func|var|let) ${word##*.}\\b" Sources ;;
    esac || printf '%s: there is no %s\n' "$1" "$word"
  done < <(sed '/ \*)$/q' "$folder/$1.litmus" |
    grep -oE '[A-Za-z]+(/[A-Za-z_]+)*/?[A-Za-z_]+\.(swift|c|h)\b|\b[A-Z][A-Za-z]+\.[a-z][A-Za-z]+\b|\bcoroutine_[a-z_]+' | sort -u)
}

if [[ ${1:-} == --names ]]; then
  missing=$(for file in "$folder"/*.litmus; do missing_names "$(basename "$file" .litmus)"; done)
  if [[ -n $missing ]]; then printf 'litmus: %s\n' "$missing" >&2; exit 1; fi
  exit 0
fi

if ! command -v "${herd[0]}" > /dev/null; then
  printf 'litmus: herd7 is missing (not in Debian 12): build tag 7.57 of https://github.com/herd/herdtools7 by Debian'\''s ocaml, ocaml-dune, menhir, libmenhir-ocaml-dev, libzarith-ocaml-dev, or set HERD7\n' >&2
  exit 2
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# What a test of C is true of: herd7's own model, which lets loads be answered by later stores, and the repaired one.
readonly c_models=(c11_partialSC.cat rc11.cat)

# result <file>: Sometimes, if it happens by one of the models, else Never; and "race" if accesses meet that are not atomic.
# Fails if herd7 does.
result() {
  local output='' model models=('')
  if [[ $(head -n 1 "$1") == 'C '* ]]; then models=("${c_models[@]}"); fi
  for model in "${models[@]}"; do
    output+=$("${herd[@]}" ${model:+-model "$model"} "$1" 2>&1)$'\n' || { tail -n 3 <<< "$output"; return 1; }
  done
  awk -v models=${#models[@]} '
    /^Observation / { results++; if ($3 != "Never") found = 1 }
    /^Flag .*undef/ { race = " race" }
    END { if (results != models) exit 1; print (found ? "Sometimes" : "Never") race }' <<< "$output" ||
    { printf 'no result: %s' "${output:0:200}"; return 1; }
}

passed=0
failed=0

differs() {
  failed=$((failed + 1))
  printf '%s\n' "$1"
}

# check <name> <file>
check() {
  local now kept
  if ! now=$(result "$2"); then now="error: ${now//$'\n'/ }"; fi
  printf '%s: %s\n' "$1" "$now" >> "$scratch/results"
  kept=$(awk -F ': ' -v name="$1" '$1 == name { print $2 }' "$folder/expected" 2> /dev/null || true)
  if [[ $now == "$kept" ]]; then
    passed=$((passed + 1))
  else
    differs "$1: $now, and not ${kept:-kept}"
  fi
}

tests=("$@")
if ((${#tests[@]} == 0)); then
  for file in "$folder"/*.litmus; do tests+=("$(basename "$file" .litmus)"); done
fi
for name in "${tests[@]}"; do
  file=$folder/$name.litmus
  check "$name" "$file"
  while IFS= read -r line; do differs "$line"; done < <(missing_names "$name")
  # The head alone says what to edit, and only what follows it is edited.
  head=$(grep -n ' \*)$' "$file" | head -n 1 | cut -d : -f 1)
  while IFS= read -r line; do
    edit=${line#*: }
    edit=${edit% \*)}
    what=${line%%: *}
    what=${what#"${what%%[! ]*}"}
    { head -n 1 "$file"; tail -n "+$((head + 1))" "$file"; } > "$scratch/test.litmus"
    sed -e "$edit" "$scratch/test.litmus" > "$scratch/variant.litmus"
    if cmp -s "$scratch/test.litmus" "$scratch/variant.litmus"; then
      differs "$name, ${what,}: the edit changes nothing"
      continue
    fi
    check "$name, ${what,}" "$scratch/variant.litmus"
  done < <(head -n "$head" "$file" | grep -E '^   With(out)? .*: (s/|/)')
done

if ((${#@} == 0)); then
  # What is kept of tests that are no more.
  while IFS= read -r name; do
    differs "$name: kept, and not there"
  done < <(comm -23 <(cut -d : -f 1 "$folder/expected" 2> /dev/null | sort) <(cut -d : -f 1 "$scratch/results" | sort))
  if [[ $renews == yes ]]; then
    if grep -q ': error: ' "$scratch/results"; then
      printf 'litmus: a test has no result: nothing is kept\n' >&2
      exit 1
    fi
    cp "$scratch/results" "$folder/expected"
  fi
fi

printf '%d passed, %d failed\n' "$passed" "$failed"
((failed == 0))
