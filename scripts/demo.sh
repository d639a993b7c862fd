#!/usr/bin/env bash
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

build() {  # build <backend>: prints the program's path
  local options=(--package-path Examples --scratch-path ".build-demo-$1" --traits "$1" --configuration release)
  if ! swift build "${options[@]}" --product index-files > "$results/build.log" 2>&1; then
    cat "$results/build.log" >&2
    return 1
  fi
  printf '%s/index-files\n' "$(swift build "${options[@]}" --show-bin-path)"
}

declare -A programs
for backend in "${backends[@]}"; do
  printf 'Building the demo on %s ...\n' "$backend"
  programs[$backend]=$(build "$backend")
done

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
  }'
