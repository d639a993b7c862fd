#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The context backends, which Package.swift lists. Prints their names, one per line, the default first.
#   scripts/backends.sh                  ASM, Boost, ...
#   scripts/backends.sh --library NAME   what is linked for that one, as Package.swift has it; nothing for most
#   scripts/backends.sh --check          fails if a place that must name each of them does not, and prints the place
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

names() { sed -n 's/^ *\(Backend(\)\?name: "\([A-Za-z]*\)", purpose: .*/\2/p' Package.swift; }

library_of() {  # library_of <name>
  awk -v name="$1" '
    /name: "[A-Za-z]*", purpose: / { here = index($0, "name: \"" name "\"") > 0 }
    here && match($0, / library: "[^"]*"/) { print substr($0, RSTART + 11, RLENGTH - 12); exit }' Package.swift
}

case ${1:-} in
  '') names; exit ;;
  --library) library_of "${2:?"--library <name>"}"; exit ;;
  --check) ;;
  *) printf 'backends: --library <name>, --check, or nothing\n' >&2; exit 2 ;;
esac

missing=0
# demand <name> <file> <text>...: the file has each text in a line.
demand() {
  local text
  for text in "${@:3}"; do
    grep -q -F -- "$text" "$2" || {
      printf 'backends: %s does not name the backend %s: no "%s" in it\n' "$2" "$1" "$text" >&2
      missing=1
    }
  done
}

# demand_file <name> <what> <path>: there is such a file.
demand_file() {
  compgen -G "$3" > /dev/null || {
    printf 'backends: the backend %s has no %s: %s\n' "$1" "$2" "$3" >&2
    missing=1
  }
}

while read -r name; do
  demand_file "$name" "header" "Sources/CCoroutineContext$name/include/context_${name,,}.h"
  demand_file "$name" "source in C or assembly" "Sources/CCoroutineContext$name/*.[cS]"
  demand_file "$name" "type" "Sources/Context$name/${name}Context.swift"

  selected=Sources/Coroutine/Core/SelectedBackend.swift
  demand "$name" "$selected" "import Context$name" "SelectedBackend = ${name}Context" \
    "#if CONTEXT_BACKEND_${name^^}" "names.append(\"$name\")"

  tests=Tests/CoroutineContextTests/TestFiber.swift
  demand "$name" "$tests" "import Context$name" "extension ${name}Context: TestedBackend" "${name}Context.self"

  for manifest in Examples/Package.swift Benchmarks/Package.swift; do
    demand "$name" "$manifest" "\"$name\": \""
  done
done < <(names)
exit "$missing"
