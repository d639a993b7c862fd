#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the litmus tests of Tests/Litmus by herd7, which knows the memory models of C11, AArch64 and x86, and compares with
# the kept results, Tests/Litmus/expected. docs/memory-model.md has the table of them.
#
#   scripts/litmus.sh [--renew] [<test>]...     of these only; --renew: writes all results anew, to be read in the diff
#   scripts/litmus.sh --names                   only whether tests and sources name each other, as below: needs no herd7
#   scripts/litmus.sh --where-there-is-herd     all, if there is herd7; else as --names, and says so
#   scripts/litmus.sh --has-herd                whether there is
#   HERD7="herd7 -set-libdir /opt/herd/libdir" scripts/litmus.sh
#
# A test names in its head what must not happen, and edits of its own text (lines `Without ...: <sed script>`) that each take one
# fence or order away. Each edit is a test too: there it must happen. So a test that would not see a mistake is found.
# One line for each that differs, then the sum. Without herd7 nothing runs: exit code 2.
#
# --names: the files and functions that a head names are there. Each of these files has a comment `litmus: <name>` at the access
# or the function, with the test's name without the model (`-c11`), and each such comment is in a file that a head of that name
# names. (A head without a file names another test, which it is a form of.) Each test has an edit, and the kept result of an edit is
# not that of the test. A change of an order next to such a comment needs a change of the test: that is for who reads the change.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

read -ra herd <<< "${HERD7:-herd7}"
readonly folder=Tests/Litmus
renews=no
if [[ ${1:-} == --renew ]]; then renews=yes; shift; fi

# The head of a test: its comment.
head_of() { sed '/ \*)$/q' "$folder/$1.litmus"; }

readonly file_pattern='[A-Za-z]+(/[A-Za-z_]+)*/?[A-Za-z_0-9]+\.(swift|c|h)\b'

# find_file <name>: prints the path of a file of the sources that a head names so.
find_file() { compgen -G "Sources/$1" || compgen -G "Sources/*/$1" || compgen -G "Sources/*/include/$1"; }

# missing_names <test>: prints what its head names of the code that it models, a file or a function, and is not there.
missing_names() {
  local word
  while IFS= read -r word; do
    case $word in
      *.swift | *.c | *.h) find_file "$word" > /dev/null ;;
      coroutine_*) grep -rqw -e "$word" Sources ;;
      *) grep -rqE "(func|var|let) ${word##*.}\\b" Sources ;;
    esac || printf '%s: there is no %s\n' "$1" "$word"
  done < <(head_of "$1" | grep -oE "$file_pattern|\b[A-Z][A-Za-z]+\.[a-z][A-Za-z]+\b|\bcoroutine_[a-z_]+" | sort -u)
}

# modelled_files <test>: prints the files that its head names, each with the test's name without the model.
modelled_files() {
  local word
  while IFS= read -r word; do
    find_file "$word" | sed "s|\$|: ${1%-*}|" || true
  done < <(head_of "$1" | grep -oE "$file_pattern" | sort -u)
}

# names_another <test>: whether its head names another test, which is there.
names_another() {
  local word
  while IFS= read -r word; do
    if [[ $word != "$1" && -e $folder/$word.litmus ]]; then return 0; fi
  done < <(head_of "$1" | grep -oE '\b[a-z]+(-[a-z]+)+-(c11|a64|x86)\b')
  return 1
}

check_names() {
  local file name test files modelled='' referring
  for file in "$folder"/*.litmus; do
    test=$(basename "$file" .litmus)
    missing_names "$test"
    files=$(modelled_files "$test")
    modelled+=$files$'\n'
    if [[ -z $files ]] && ! names_another "$test"; then printf '%s: its head names no file of the sources\n' "$test"; fi
    if ! head_of "$test" | grep -qE '^   With(out)? .*: (s/|/)'; then printf '%s: no edit takes an order away\n' "$test"; fi
  done
  referring=$(grep -rnoE 'litmus: [a-z-]+(, [a-z-]+)*' Sources | awk -F ': ' '
    { file = $1; sub(/:[0-9]+:.*/, "", file); count = split($2, names, ", "); for (i = 1; i <= count; i++) print file ": " names[i] }')
  while IFS= read -r name; do
    printf '%s: a test names this file, which has no such comment\n' "${name/: /: litmus: }"
  done < <(comm -23 <(sort -u <<< "$modelled" | grep .) <(sort -u <<< "$referring"))
  while IFS= read -r name; do
    printf '%s: no test of that name names this file\n' "${name/: /: litmus: }"
  done < <(comm -13 <(sort -u <<< "$modelled" | grep .) <(sort -u <<< "$referring"))
  awk -F ': ' '
    { test = $1; sub(/, with.*/, "", test) }
    test == $1 { of[test] = $2; next }
    $2 == of[test] { print $1 ": kept as if nothing were taken away" }' "$folder/expected"
}

has_herd() { command -v "${herd[0]}" > /dev/null; }

case ${1:-} in
  --has-herd) has_herd; exit ;;
  --where-there-is-herd)
    shift
    if ! has_herd; then
      printf 'litmus: there is no herd7 on this machine: the tests do not run, only their names are checked\n'
      set -- --names
    fi ;;
esac

if [[ ${1:-} == --names ]]; then
  missing=$(check_names)
  if [[ -n $missing ]]; then sed 's/^/litmus: /' <<< "$missing" >&2; exit 1; fi
  exit 0
fi

if ! has_herd; then
  printf 'litmus: herd7 is missing (not in Debian 12): build tag 7.57 of https://github.com/herd/herdtools7 by Debian'\''s ocaml, ocaml-dune, menhir, libmenhir-ocaml-dev, libzarith-ocaml-dev, or set HERD7\n' >&2
  exit 2
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# What a test of C is true of: herd7's own model, and the repaired one (RC11) without its last rule, which forbids loads to be
# answered by later stores. That rule no compiler for AArch64 keeps, and the others all do: docs/memory-model.md.
readonly c_models=("c11_partialSC.cat" "rc11.cat -skipcheck no-thin-air")

# result <file>: Sometimes, if it happens by one of the models, else Never; and "race" if accesses meet that are not atomic.
# Fails if herd7 does.
result() {
  local output='' model models=('')
  if [[ $(head -n 1 "$1") == 'C '* ]]; then models=("${c_models[@]}"); fi
  for model in "${models[@]}"; do
    output+=$("${herd[@]}" ${model:+-model $model} "$1" 2>&1)$'\n' || { tail -n 3 <<< "$output"; return 1; }
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
