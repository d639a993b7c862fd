#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Compiles the Swift examples of the README, of docs/, and of the catalogs in Sources: each ```swift block has to compile.
# Errors name the line in the document. Blocks that are marked `run` are run, too, and have to print what their comments
# say.
#
#   scripts/check-docs.sh [FILE.md...]
#   scripts/check-docs.sh --sources CoroutineNIO FOLDER     makes the source files that a product's documents become
#
# The pages of CoroutineNIO and CoroutineObservability need their traits and other packages: scripts/test-everybody.sh and
# scripts/test-dependent.sh, which have these, compile them.
#
# A document becomes one source file, and a block becomes a function in it: an async one if the block has an `await`.
# What a block needs and a reader does not see is written in hidden comments before the block:
#
#   <!-- docs: given              declarations for the whole document, at the top of its file; to be `private`
#   private func …
#   -->
#   <!-- docs: file -->           the block is no function's body: it extends types
#   <!-- docs: sync -->           the block's `await` is in a closure
#   <!-- docs: run -->            the block is run in a coroutine, and has to print what the comments behind its
#                                 `print(…)` say: the same words in the same order, whatever commas and line ends
#   <!-- docs: skip, because … -->
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/build-options.sh

sources=$(mktemp -d)
trap 'rm -rf "$sources"' EXIT

# extract <document>: prints its source file. Adds the blocks to be run to a list: function, line, expected output.
extract() {
  awk -v document="$1" -v name="$(tr -c 'A-Za-z0-9\n' _ <<< "$1")" -v runs="$sources/runs" '
    function at(line) { return "#sourceLocation(file: \"" document "\", line: " line ")\n" }
    /^<!-- docs: given/ { inside = "given"; given = given at(NR + 1); next }
    inside == "given" { if (/^-->/) inside = ""; else given = given $0 "\n"; next }
    /^<!-- docs: / { directive = $3; sub(/,$/, "", directive); next }
    /^```swift/ { inside = "block"; text = at(NR + 1); effects = "throws"; output = ""; start = NR; next }
    inside == "block" && /^```/ {
      inside = ""
      if (directive == "file") files = files text
      else if (directive != "skip") {
        if (directive == "sync") effects = "throws"
        functions = functions "func " name "_" ++count "() " effects " {\n" text "}\n"
        if (directive == "run") printf "%s_%d\t%s:%d\t%s\n", name, count, document, start, output >> runs
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
      if (directive == "run" && /print\(/ && match($0, / \/\/ /)) output = output " " substr($0, RSTART + RLENGTH)
      sub(/^func /, "@Sendable &")  # as if it stood outside of every function, where readers write it
      text = text $0 "\n"
    }
    END {
      imports["import Coroutine"] = 1
      imports["import Dispatch"] = 1
      imports["import Foundation"] = 1
      for (line in imports) print line
      text = given files functions
      if (text ~ /#sourceLocation/) text = text "#sourceLocation()\n"
      printf "%s", text
    }' "$1"
}

if [[ ${1:-} == --sources ]]; then
  mkdir "$3"
  for document in "Sources/$2/$2.docc"/*.md; do extract "$document" > "$3/$(basename "$document" .md).swift"; done
  exit
fi

if (($# == 0)); then
  mapfile -t documents < <(find README.md docs Sources/*/*.docc -name '*.md' |
    grep --invert-match --extended-regexp '/(CoroutineNIO|CoroutineObservability)\.docc/' | sort |
    xargs grep --files-with-matches '^```swift')
  set -- "${documents[@]}"
fi

set_build_options ASM debug
for target in CoroutineInspection CoroutineTesting CoroutineTracing CoroutineIO; do
  if ! log=$(swift build "${build_options[@]}" --target "$target" 2>&1); then
    printf '%s\n' "$log" >&2
    exit 1
  fi
done
built=$(swift build "${build_options[@]}" --show-bin-path)

touch "$sources/runs"
for document; do extract "$document" > "$sources/$(tr -c 'A-Za-z0-9\n' _ <<< "$document").swift"; done

# A coroutine on a queue of its own, and the coroutines that it launches there, take turns in a known order. The main
# queue is served.
cat > "$sources/Run.swift" <<END
import Coroutine
import Dispatch

@main enum Run {
  static func main() async throws {
    let example = examples[CommandLine.arguments[1]]!
    try await Coroutine(on: DispatchQueue(label: "example")) {
      try example()
      while Coroutine.statistics.liveCoroutines > 1 { try Coroutine.sleep(for: .milliseconds(1)) }
    }.get()
  }

  static let examples: [String: @Sendable () throws -> Void] = [
$(cut -f 1 "$sources/runs" | sed 's/.*/    "&": &,/')
    "": {},
  ]
}
END

modules=()
objects=()
for folder in Sources/*; do
  name=$(basename "$folder")
  map=$built/$name.build/module.modulemap
  if [[ -e $folder/include/module.modulemap ]]; then map=$folder/include/module.modulemap; fi
  if [[ -e $map ]]; then modules+=(-Xcc "-fmodule-map-file=$map" -Xcc "-I$folder/include"); fi
  if [[ -d $built/$name.build ]]; then mapfile -t -O "${#objects[@]}" objects < <(find "$built/$name.build" -name '*.o'); fi
done
# An example need not use all that it declares.
ar rc "$sources/modules.a" "${objects[@]}"  # the program links only what it uses
swiftc -o "$sources/examples" -wmo -parse-as-library -swift-version 6 -suppress-warnings -module-name Documentation \
  -I "$built/Modules" "${modules[@]}" "$sources"/*.swift "$sources/modules.a" -lunwind-generic -lunwind -ldw -lelf
printf 'The examples of %d documents compile.\n' $#

words() { tr -s ', \n' ' ' | sed 's/^ //; s/ $//'; }
failures=0
while IFS=$'\t' read -r function place expected; do
  status=0
  output=$(HOME=$sources TMPDIR=$sources timeout 60 "$sources/examples" "$function" 2> "$sources/complaints" < /dev/null) ||
    status=$?
  if ((status != 0)) || [[ $(words <<< "$output") != "$(words <<< "$expected")" ]]; then
    printf 'error: %s: ends with %d, and prints\n%s\ninstead of\n%s\n' "$place" "$status" "$output" "$expected" >&2
    head -n 20 "$sources/complaints" >&2
    failures=$((failures + 1))
  fi
done < "$sources/runs"
((failures == 0))
printf '%d of them print what they say.\n' "$(wc -l < "$sources/runs")"
