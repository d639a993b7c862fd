#!/usr/bin/env bash
# Compiles the Swift examples of the README and of docs/: each ```swift block has to compile. Errors name the line
# in the document.
#
#   scripts/check-docs.sh [FILE.md...]
#
# A document becomes one source file, a block a function in it: an async one if the block says `await`. What a block needs
# and a reader does not is said in comments that are not shown, before the block:
#
#   <!-- docs: given              declarations for the whole document, at the top of its file; to be `private`
#   private func …
#   -->
#   <!-- docs: file -->           the block is no function's body: it extends types
#   <!-- docs: sync -->           the block's `await` is in a closure
#   <!-- docs: skip, because … -->
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if (($# == 0)); then
  mapfile -t documents < <(find README.md docs -name '*.md' | sort | xargs grep --files-with-matches '^```swift')
  set -- "${documents[@]}"
fi

# The same flags as those of the tests, whose build is used again.
options=(--scratch-path .build-ASM-debug --traits ASM -Xswiftc -warnings-as-errors -Xcc -Wall -Xcc -Werror)
for target in CoroutineInspection CoroutineTracing; do
  if ! log=$(swift build "${options[@]}" --target "$target" 2>&1); then
    printf '%s\n' "$log" >&2
    exit 1
  fi
done
built=$(swift build "${options[@]}" --show-bin-path)

sources=$(mktemp -d)
trap 'rm -rf "$sources"' EXIT

# extract <document>: prints its source file.
extract() {
  awk -v document="$1" -v name="$(tr -c 'A-Za-z0-9\n' _ <<< "$1")" '
    function at(line) { return "#sourceLocation(file: \"" document "\", line: " line ")\n" }
    /^<!-- docs: given/ { inside = "given"; given = given at(NR + 1); next }
    inside == "given" { if (/^-->/) inside = ""; else given = given $0 "\n"; next }
    /^<!-- docs: / { directive = $3; sub(/,$/, "", directive); next }
    /^```swift/ { inside = "block"; text = at(NR + 1); effects = "throws"; next }
    inside == "block" && /^```/ {
      inside = ""
      if (directive == "file") files = files text
      else if (directive != "skip") {
        if (directive == "sync") effects = "throws"
        functions = functions "private func " name "_" ++count "() " effects " {\n" text "}\n"
      }
      directive = ""
      next
    }
    inside == "block" && directive != "skip" && /^(public |@testable )?import / {
      imports[$0] = 1
      text = text "\n"
      next
    }
    inside == "block" {
      if ($0 ~ /(^|[^.A-Za-z])await /) effects = "async throws"
      sub(/^func /, "@Sendable &")  # as it is where readers write it, outside of every function
      text = text $0 "\n"
    }
    END {
      imports["import Coroutine"] = 1
      imports["import Dispatch"] = 1
      imports["import Foundation"] = 1
      for (line in imports) print line
      printf "%s%s%s#sourceLocation()\n", given, files, functions
    }' "$1"
}

for document; do extract "$document" > "$sources/$(tr -c 'A-Za-z0-9\n' _ <<< "$document").swift"; done

modules=()
for folder in Sources/*/include; do
  name=$(basename "$(dirname "$folder")")
  map=$built/$name.build/module.modulemap
  if [[ -e $folder/module.modulemap ]]; then map=$folder/module.modulemap; fi
  if [[ -e $map ]]; then modules+=(-Xcc "-fmodule-map-file=$map" -Xcc "-I$folder"); fi
done
# As far as the compiler's last complaint: that a value is sent elsewhere, and used again, it finds behind the type checker.
# A snippet need not use what it shows.
swiftc -emit-sil -o /dev/null -wmo -parse-as-library -swift-version 6 -suppress-warnings -module-name Documentation \
  -I "$built/Modules" "${modules[@]}" "$sources"/*.swift
printf 'The examples of %d documents compile.\n' $#
