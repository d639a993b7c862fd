#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds and runs the example program on each context backend, and ends with a table that compares them.
#
#   scripts/demo.sh [DIRECTORY]     the directory to index; without one the program chooses
set -euo pipefail
# Before the change of folder, as the directory is relative to the caller's.
directories=()
for directory; do
  if [[ ! -d $directory ]]; then printf 'demo: %s is not a directory\n' "$directory" >&2; exit 2; fi
  directories+=("$(realpath -- "$directory")")
done
cd "$(dirname "${BASH_SOURCE[0]}")/.."

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
mapfile -t backends < <(scripts/backends.sh)
readonly backends

# patiently <what> <command>...: runs it with its output in a log, which is shown if it fails. Says every 30 seconds how far
# it is.
patiently() {
  local what=$1 log=$results/log beginning=$SECONDS told=$SECONDS child
  shift
  printf '%s ...\n' "$what"
  "$@" > "$log" 2>&1 &
  child=$!
  while kill -0 "$child" 2> /dev/null; do
    sleep 0.2
    if ((SECONDS - told >= 30)); then
      told=$SECONDS
      printf '  since %d s: %s\n' $((told - beginning)) "$(tail -n 1 "$log" | cut -c 1-100)"
    fi
  done
  wait "$child" || { cat "$log" >&2; return 1; }
}

declare -A programs
for backend in "${backends[@]}"; do
  options=(--package-path Examples --scratch-path ".build-demo-$backend" --traits "$backend" --configuration release)
  patiently "Building the demo on $backend" swift build "${options[@]}" --product index-files
  programs[$backend]=$(swift build "${options[@]}" --show-bin-path)/index-files
done

# Or the first backend would pay for the reading from the disk.
patiently "Reading all files once, so that each backend finds them in memory" \
  "${programs[${backends[0]}]}" ${directories[@]+"${directories[@]}"}

for backend in "${backends[@]}"; do
  printf '\n=== %s ===\n' "$backend"
  "${programs[$backend]}" --stats "$results/$backend" ${directories[@]+"${directories[@]}"}
  # Checks that the trait has arrived: a table of three equal backends would look right, too.
  if ! grep -q "^backend=$backend " "$results/$backend"; then
    printf 'The program built with --traits %s says: %s\n' "$backend" "$(cat "$results/$backend")" >&2
    exit 1
  fi
done

# Each line is like `backend=ASM switch_ns=0.88 generator_ns=2.4 total_ms=512`; in brackets the multiple of the first
# backend.
cat "${backends[@]/#/$results/}" | awk '
  function cell(name, unit, digits) {
    if (NR == 1) base[name] = value[name]
    return sprintf("%.*f %s (%.1fx)", digits, value[name], unit, base[name] > 0 ? value[name] / base[name] : 0)
  }
  NR == 1 { printf "\n%-10s %20s %20s %20s\n", "backend", "one-way switch", "generator element", "whole program" }
  {
    for (i = 1; i <= NF; i++) { split($i, pair, "="); value[pair[1]] = pair[2] }
    printf "%-10s %20s %20s %20s\n", value["backend"], cell("switch_ns", "ns", 2), cell("generator_ns", "ns", 1),
      cell("total_ms", "ms", 0)
  }
  END {
    print "\nThe switch and the element are what a backend is responsible for: medians of seven runs, to be compared.\n" \
      "The whole program counts words and reads files, and was run once: the differences in its column are noise."
  }'
