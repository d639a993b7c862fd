#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes the documentation of all products, from their catalogs (Sources/<product>/<product>.docc) and the comments of their
# public symbols, by the docc of the toolchain. Errors are: what docc warns of, such as a link that leads nowhere, or a
# parameter that is left out where others are described; a public symbol without a comment; a product without a catalog.
#
#   scripts/docc.sh [PRODUCT...]
#
# Writes a folder for each product, .build-docc/archives/<product>.doccarchive, for a web server to serve.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

products=("$@")
if (($# == 0)); then
  mapfile -t products < <(sed -n 's/^ *\.library(name: "\([A-Za-z]*\)".*/\1/p' Package.swift)
  for backend in $(scripts/backends.sh); do products+=("Context$backend"); done
fi

# The tools that belong to the compiler lie beside it; where `swift` is a link (swiftly), the compiler tells where that is.
resources=$(swift -print-target-info | sed -n 's/^ *"runtimeResourcePath": "\(.*\)".*/\1/p')
docc=${resources%/lib/swift*}/bin/docc
triple=$(swift -print-target-info | sed -n 's/^ *"triple": "\(.*\)".*/\1/p')

build=.build-docc
logs=$build/logs graphs=$build/symbol-graphs archives=$build/archives
mkdir -p "$logs" "$archives"
rm -rf "$graphs"

# Only modules, as an editor needs them: what functions do is of no interest, and is not compiled. With all traits, as
# without theirs some products are empty.
options=(--scratch-path "$build" --traits ASM,Observability,NIO --experimental-prepare-for-indexing)
for product in "${products[@]}"; do
  if ! swift build "${options[@]}" --target "$product" > "$logs/build" 2>&1; then
    cat "$logs/build" >&2
    exit 1
  fi
done
built=$(swift build "${options[@]}" --show-bin-path)

# The C modules behind them: those that SwiftPM has written a map for, and those that have one.
clang=()
for map in "$built"/*.build/module.modulemap {Sources,"$build"/checkouts/*/Sources}/*/include/module.modulemap; do
  if [[ -e $map ]]; then clang+=(-Xcc "-fmodule-map-file=$map"); fi
done
for folder in {Sources,"$build"/checkouts/*/Sources}/*/include; do clang+=(-Xcc "-I$folder"); done

failures=0
for product in "${products[@]}"; do
  mkdir -p "$graphs/$product"
  if ! swift symbolgraph-extract -module-name "$product" -target "$triple" -I "$built/Modules" "${clang[@]}" \
    -minimum-access-level public -skip-inherited-docs -emit-extension-block-symbols -output-dir "$graphs/$product" \
    > "$logs/$product" 2>&1; then
    printf 'error: the symbols of %s:\n' "$product" >&2
    head -n 20 "$logs/$product" >&2
    exit 1
  fi

  catalog=Sources/$product/$product.docc
  if [[ ! -d $catalog ]]; then
    printf 'error: %s has no catalog %s\n' "$product" "$catalog" >&2
    failures=$((failures + 1))
    continue
  fi
  if ! "$docc" convert "$catalog" --additional-symbol-graph-dir "$graphs/$product" --warnings-as-errors \
    --fallback-display-name "$product" --fallback-bundle-identifier "$product" --output-dir "$archives/$product.doccarchive" \
    > "$logs/$product" 2>&1; then
    printf 'error: the documentation of %s:\n' "$product" >&2
    cat "$logs/$product" >&2
    failures=$((failures + 1))
  fi
done

# A witness of a protocol's requirement is described there.
swiftc -o "$build/uncommented" scripts/uncommented-symbols.swift
"$build/uncommented" "$graphs"/*/*.symbols.json | sed "s,^$PWD/,," >&2 || failures=$((failures + 1))

if ((failures > 0)); then exit 1; fi
printf 'The documentation of %d products: %s\n' "${#products[@]}" "$archives"
