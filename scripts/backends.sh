#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The context backends, which Package.swift lists. Prints their names, one per line, the default first.
#   scripts/backends.sh                  ASM, Boost, ...
#   scripts/backends.sh --library NAME   what is linked for that one, as Package.swift has it; nothing for most
#   scripts/backends.sh --write          writes what names each of them in Swift: see below
#   scripts/backends.sh --check          fails if that is not written, or a backend's own file is missing
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

names() { sed -n 's/^ *\(Backend(\)\?name: "\([A-Za-z]*\)", purpose: .*/\2/p' Package.swift; }

purpose_of() { sed -n "s/.*name: \"$1\", purpose: \"\([^\"]*\)\".*/\1/p" Package.swift; }  # purpose_of <name>

library_of() {  # library_of <name>
  awk -v name="$1" '
    /name: "[A-Za-z]*", purpose: / { here = index($0, "name: \"" name "\"") > 0 }
    here && match($0, / library: "[^"]*"/) { print substr($0, RSTART + 11, RLENGTH - 12); exit }' Package.swift
}

# condition <name>: what is defined where it is chosen.
condition() { printf 'CONTEXT_BACKEND_%s' "${1^^}"; }

# A choice by name is possible in Swift's sources only where each name is written: an import takes no parameter, nor does a
# function for C. A manifest can't read another one. So these places are written from the list.
places=(
  Sources/Coroutine/Backend/SelectedBackend.swift
  Tests/CoroutineContextTests/TestedBackends.swift
  Examples/Package.swift
  Benchmarks/Package.swift
  Benchmarks/Sources/Measurement/Backends.swift
)

note() { printf '// Written by scripts/backends.sh --write, from the list in Package.swift.\n'; }

selected_backend() {
  local name all=() branch="#if" first
  mapfile -t all < <(names)
  first=${all[0]}
  printf '// SPDX-License-%s\n\n' 'Identifier: Apache-2.0'
  note
  printf '\n// Traits add up across a package graph: an explicit choice wins over the default, and of two the later one in the list.\n\n'
  while read -r name; do
    if [[ $name == "$first" ]]; then printf '#else\n'; else printf '%s %s\n' "$branch" "$(condition "$name")"; fi
    printf '  public import Context%s\n' "$name"
    printf '  /// The context backend that this build of the runtime runs on.\n'
    printf '  public typealias SelectedBackend = %sContext\n' "$name"
    branch="#elseif"
  done < <(names | tac)
  printf '#endif\n\n'
  printf '/// The traits that this build has on, the winner last. Several: packages of one graph have asked for different backends.\n'
  printf '/// By SwiftPM alone; CMake builds one.\n'
  printf 'enum BackendTraits {\n  static var names: [String] {\n    var names: [String] = []\n'
  for name in "${all[@]}"; do
    printf '    #if %s\n      names.append("%s")\n    #endif\n' "$(condition "$name")" "$name"
  done
  printf '    return names\n  }\n}\n'
}

# where_linked <name>: the lines of the input, inside of its condition if it is linked only where it is chosen.
where_linked() {
  if [[ -z $(library_of "$1") ]]; then cat; else
    printf '#if %s\n' "$(condition "$1")"
    sed 's/^./  &/'
    printf '#endif\n'
  fi
}

tested_backend() {  # tested_backend <name>
  local function
  printf 'extension %sContext: TestedBackend {\n' "$1"
  for function in resum suspend; do
    printf '  static var %sing: @convention(c) (UnsafeMutableRawPointer?) -> Void {\n' "$function"
    printf '    { _ = %sContext.%s(ContextLink<%sContext>.at($0), passing: 0) }\n  }\n' "$1" "${function/resum/resume}" "$1"
  done
  printf '}\n'
}

tested_backends() {
  local name
  note
  printf '\nimport Context\n'
  while read -r name; do
    if [[ -z $(library_of "$name") ]]; then printf 'import Context%s\n' "$name"; fi
  done < <(names | LC_ALL=C sort)  # imports in the order that the format demands
  while read -r name; do
    if [[ -n $(library_of "$name") ]]; then printf '\n'; printf 'import Context%s\n' "$name" | where_linked "$name"; fi
  done < <(names)
  while read -r name; do
    printf '\n'
    tested_backend "$name" | where_linked "$name"
  done < <(names)
  printf '\nextension Backends {\n  /// The backends of this build. One that needs a library is there if it is chosen.\n'
  printf '  static var all: [any TestedBackend.Type] {\n    var all: [any TestedBackend.Type] = []\n'
  while read -r name; do
    printf 'all.append(%sContext.self)\n' "$name" | where_linked "$name" | sed 's/^/    /'
  done < <(names)
  printf '    return all\n  }\n}\n'
}

measured_backends() {
  printf '// SPDX-License-%s\n\n' 'Identifier: Apache-2.0'
  note
  printf '\nextension Programs {\n  /// The backends in the order of the tables. The first one'"'"'s build also runs what does not use the runtime: the bare\n'
  printf '  /// backends, and other code in Swift.\n  static let backends = ['
  names | sed 's/.*/"&"/' | paste -s -d , | sed 's/,/, /g; s/$/]/'
  printf '}\n'
}

# documentation <name>: a product has a page. Written where there is none, and then its author's.
documentation() {
  local file=Sources/Context$1/Context$1.docc/Context$1.md
  [[ ! -e $file ]] || return 0
  mkdir -p "$(dirname "$file")"
  cat > "$file" <<END
# \`\`Context$1\`\`

A backend of \`Context\`. What its trait says: $(purpose_of "$1")

## Overview

The documentation of \`Context\` has the protocol, and an example. The trait \`$1\` of the package lets \`Coroutine\` run on
this backend.

## Topics

### The backend

- \`\`$1Context\`\`
END
}

manifest() {  # manifest <path>: with the list in the place of its own one
  local name
  sed '/^let backends: KeyValuePairs = \[$/q' "$1"
  while read -r name; do printf '  "%s": "%s",\n' "$name" "$(purpose_of "$name")"; done < <(names)
  sed '1,/^let backends: KeyValuePairs = \[$/d' "$1" | sed -n '/^\]$/,$p'
}

written() {  # written <place>
  case $1 in
    */SelectedBackend.swift) selected_backend ;;
    */TestedBackends.swift) tested_backends ;;
    */Backends.swift) measured_backends ;;
    *) manifest "$1" ;;
  esac
}

# demand_file <name> <what> <path>: there is such a file.
demand_file() {
  compgen -G "$3" > /dev/null || {
    printf 'backends: the backend %s has no %s: %s\n' "$1" "$2" "$3" >&2
    missing=1
  }
}

check() {
  local name place
  missing=0
  while read -r name; do
    demand_file "$name" "header" "Sources/CCoroutineContext$name/include/context_${name,,}.h"
    demand_file "$name" "source in C or assembly" "Sources/CCoroutineContext$name/*.[cS]"
    demand_file "$name" "type" "Sources/Context$name/${name}Context.swift"
    demand_file "$name" "page for readers" "Sources/Context$name/Context$name.docc/Context$name.md"
  done < <(names)
  for place in "${places[@]}"; do
    written "$place" | cmp -s - "$place" || {
      printf 'backends: %s is not as the list in Package.swift: scripts/backends.sh --write\n' "$place" >&2
      missing=1
    }
  done
  return "$missing"
}

write() {
  local name place text
  while read -r name; do documentation "$name"; done < <(names)
  for place in "${places[@]}"; do
    text=$(written "$place")
    printf '%s\n' "$text" > "$place"
  done
}

case ${1:-} in
  '') names ;;
  --library) library_of "${2:?"--library <name>"}" ;;
  --check) check ;;
  --write) write ;;
  *) printf 'backends: --library <name>, --write, --check, or nothing\n' >&2; exit 2 ;;
esac
