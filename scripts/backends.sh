#!/usr/bin/env bash
# The context backends, which Package.swift lists. Prints their names, one per line, the default first.
#   scripts/backends.sh           ASM, Boost, ...
#   scripts/backends.sh --check   fails if a place that must name each of them does not, and prints the place
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

names() { sed -n 's/^ *\(Backend(\)\?name: "\([A-Za-z]*\)", purpose: .*/\2/p' Package.swift; }

if [[ ${1:-} != --check ]]; then
  names
  exit
fi

missing=0
# demand <name> <text> <file>...
demand() {
  local file
  for file in "${@:3}"; do
    grep -q -- "$2" "$file" || {
      printf 'backends: %s does not name the backend %s: no "%s" in it\n' "$file" "$1" "$2" >&2
      missing=1
    }
  done
}

while read -r name; do
  demand "$name" "Context$name" Sources/Coroutine/Core/SelectedBackend.swift
  demand "$name" "${name}Context" Tests/CoroutineContextTests/TestFiber.swift
done < <(names)
exit "$missing"
