#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Compiles what can run on musl (the Static Linux SDK) as far as that is possible without an SDK: the C files against musl's own
# headers, and the Swift files, type-checked, against a module `Musl` that is made of the same headers and of declarations
# in place of Swift's part of it. Nothing is linked. See docs/platforms.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/steps.sh

readonly machine=$(uname -m)
readonly musl=/usr/include/$machine-linux-musl
if [[ ! -e $musl/stdio.h ]]; then
  printf 'check-musl: there are no headers in %s (Debian, Ubuntu: apt-get install musl-dev)\n' "$musl" >&2
  exit 2
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export scratch
mkdir "$scratch/kernel" "$scratch/built"
ln -s /usr/include/linux /usr/include/asm-generic "/usr/include/$machine-linux-gnu/asm" "$scratch/kernel"

# The same list of headers that Swift has for glibc. Swift's other modules want `SwiftGlibc`: it is the same.
resources=$(swift -print-target-info | sed -n 's/^ *"runtimeResourcePath": "\(.*\)".*/\1/p')
cp "$resources/linux/$machine/SwiftGlibc.h" "$scratch/SwiftMusl.h"
printf '#include "SwiftMusl.h"\n' > "$scratch/SwiftGlibc.h"
for module in SwiftMusl SwiftGlibc; do
  printf 'module %s [system] {\n  header "%s.h"\n  export *\n}\n' $module $module
done > "$scratch/module.modulemap"
cat > "$scratch/Musl.swift" << 'END'
@_exported import SwiftMusl

nonisolated(unsafe) public let MAP_FAILED = UnsafeMutableRawPointer(bitPattern: -1)
public var errno: CInt { get { 0 } set {} }
public func open(_ path: UnsafePointer<CChar>, _ flags: CInt) -> CInt { 0 }
public func open(_ path: UnsafePointer<CChar>, _ flags: CInt, _ mode: mode_t) -> CInt { 0 }
public func openat(_ folder: CInt, _ path: UnsafePointer<CChar>, _ flags: CInt) -> CInt { 0 }
public func fcntl(_ descriptor: CInt, _ command: CInt) -> CInt { 0 }
public func fcntl(_ descriptor: CInt, _ command: CInt, _ value: CInt) -> CInt { 0 }
public var S_IFMT: mode_t { 0o170000 }
public var S_IFCHR: mode_t { 0o020000 }
public var S_IFREG: mode_t { 0o100000 }
public var S_IFLNK: mode_t { 0o120000 }
public var S_IFSOCK: mode_t { 0o140000 }
nonisolated(unsafe) public var stderr: OpaquePointer! { nil }
END

clang=(-nostdlibinc -isystem "$musl" -isystem "$scratch/kernel")
swift=(-swift-version 6 -package-name coroutine -parse-as-library -suppress-warnings -module-cache-path "$scratch/cache"
  -Xcc -D_GNU_SOURCE -I "$scratch" -I "$scratch/built" -Xcc "-fmodule-map-file=$scratch/module.modulemap")
for flag in "${clang[@]}"; do swift+=(-Xcc "$flag"); done

# Each may use those before it.
includes=()
for module in CCoroutineSystem CCoroutine CCoroutineContextASM CCoroutineContextBoost CCoroutineIO; do
  folder=$PWD/Sources/$module/include
  headers="umbrella \"$folder\""
  if [[ -e $folder/$module.h ]]; then headers="umbrella header \"$folder/$module.h\""; fi
  mkdir "$scratch/$module"
  printf 'module %s {\n  %s\n  export *\n}\n' "$module" "$headers" > "$scratch/$module/module.modulemap"
  swift+=(-Xcc "-fmodule-map-file=$scratch/$module/module.modulemap" -Xcc "-I$folder")
  includes+=(-I "$folder")
  step "$module" clang --target="$machine-linux-musl" "${clang[@]}" -Wall -Wextra -Werror -fsyntax-only "${includes[@]}" \
    "Sources/$module"/*.[cS]
done

# The headers have warnings of their own, and Swift misses glibc's.
# As a whole module, bodies are compiled, too, and by one process.
check_swift() {  # check_swift <module> <option or file>...
  swiftc -wmo -module-name "$1" "${@:2}" -emit-module -emit-module-path "$scratch/built/$1.swiftmodule" \
    > "$scratch/log" 2>&1 || { cat "$scratch/log"; return 1; }
}
export -f check_swift

step "Musl" bash -c 'check_swift "$@"' bash Musl "${swift[@]}" "$scratch/Musl.swift"
for module in CoroutineLibc Context ContextASM ContextBoost Coroutine CoroutineIO CoroutineTracing CoroutineTesting; do
  features=(-enable-upcoming-feature InternalImportsByDefault)
  if [[ $module == Context ]]; then features=(); fi
  mapfile -t files < <(find "Sources/$module" -name '*.swift')
  step "$module" bash -c 'check_swift "$@"' bash "$module" "${swift[@]}" "${features[@]}" "${files[@]}"
done
steps_summary
