#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds and runs the conformance tests of the C layer (Tests/Assembly), with gcc and clang: the assembly natively and,
# for aarch64, under emulation; so the other backends, but those that need a library natively only. The object files of each
# configuration are looked at by scripts/check-objects.sh, which has to find those that are made wrong here. Prints one line
# for each configuration, then the sum of the tests. Fails if a test does, or if a tool is missing.
#
#   scripts/test-assembly.sh
#   CLANG=clang-19 scripts/test-assembly.sh      # another clang than the first in PATH, which is the Swift toolchain's
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

machine=$(uname -m)
clang=${CLANG:-clang}
readonly cross=/usr/aarch64-linux-gnu  # the C library for aarch64

# Tools

missing=0
need() {  # need <Debian package> <name> <check>...
  local package=$1 name=$2
  shift 2
  if ! "$@" > /dev/null 2>&1; then
    printf 'missing: %s (Debian, Ubuntu: apt-get install %s)\n' "$name" "$package" >&2
    missing=1
  fi
}

links() { gcc -x c - -o /dev/null "-l$1" <<< 'int main(void) { return 0; }'; }

mapfile -t backends < <(scripts/backends.sh)
# The first one is the assembly, which is tested in more ways than the others.
readonly others=("${backends[@]:1}")

need gcc gcc command -v gcc
need binutils readelf command -v readelf
need clang "$clang, which Swift's toolchain has too" command -v "$clang"
for backend in "${others[@]}"; do
  library=$(scripts/backends.sh --library "$backend")
  if [[ -n $library ]]; then need "lib${library//_/-}-dev" "lib$library" links "$library"; fi
done
if [[ $machine != aarch64 ]]; then
  need gcc-aarch64-linux-gnu aarch64-linux-gnu-gcc command -v aarch64-linux-gnu-gcc
  need libc6-dev-arm64-cross "the C library for aarch64" test -e "$cross/include/stdio.h"
  need qemu-user qemu-aarch64 command -v qemu-aarch64
fi
if [[ $missing != 0 ]]; then exit 2; fi

# Configurations

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
ulimit -c 0
passed=0
failed=0

# The files of a backend, all of them in every configuration, as SwiftPM compiles them. Frame pointers are kept only
# where they are tested. Elsewhere their register is one more whose value must survive.
build() {  # build <backend> <compiler> <flag>...
  local backend=$1 compiler=("${@:2}") folder=Sources/CCoroutineContext$1 libraries=(-pthread)
  local sources objects=() source object frames library
  rm -rf "$scratch/objects"
  mkdir "$scratch/objects"
  mapfile -t sources < <(find "$folder" -name '*.[cS]' | sort)
  library=$(scripts/backends.sh --library "$backend")
  if [[ -n $library ]]; then libraries+=("-l$library"); fi
  for source in "${sources[@]}" Tests/Assembly/*.c; do
    frames=-fomit-frame-pointer
    if [[ $source == *_unwind.c ]]; then frames=-fno-omit-frame-pointer; fi
    object=$scratch/objects/$(basename "$source").o
    objects+=("$object")
    "${compiler[@]}" -std=gnu11 -Wall -Wextra -Werror "$frames" -fasynchronous-unwind-tables "-I$folder/include" \
      -D"CONTEXT_TEST_${backend^^}" -D"CONTEXT_TEST=context_${backend,,}" \
      -D"CONTEXT_TEST_HEADER=\"context_${backend,,}.h\"" -c "$source" -o "$object" || return
  done
  # Not bound lazily: the linker's code for lazy binding has no landing pads, which one configuration enforces.
  "${compiler[@]}" "${objects[@]}" -Wl,-z,now "${libraries[@]}" -o "$scratch/test"
}

check() {  # check <backend> <architecture> <compiler> <flag>...
  local label="$2 ${*:3}, ${1,,}" emulator=() result wrong
  # Every feature of the architecture, and vectors that are longer than the shortest ones.
  if [[ $2 != "$machine" ]]; then emulator=(qemu-aarch64 -cpu "max,sve512=on" -L "$cross"); fi
  if ! build "$1" "${@:3}"; then
    result="0 passed, 1 failed: does not build"
  elif ! wrong=$(scripts/check-objects.sh "$scratch/objects"); then
    result="0 passed, 1 failed: ${wrong//$'\n'/; }"
  elif ! result=$(timeout 300 "${emulator[@]}" "$scratch/test") && [[ -z $result ]]; then
    result="0 passed, 1 failed: crashes or hangs"
  fi
  report "$label" "$result"
}

report() {  # report <label> <result>
  local more_passed more_failed
  printf '%-96s %s\n' "$1" "$2"
  read -r more_passed _ more_failed _ <<< "$2"
  passed=$((passed + more_passed))
  failed=$((failed + more_failed))
}

for compiler in gcc "$clang"; do
  check "${backends[0]}" "$machine" "$compiler" -O0
  check "${backends[0]}" "$machine" "$compiler" -O2
  check "${backends[0]}" "$machine" "$compiler" -O3 -march=native
  for backend in "${others[@]}"; do check "$backend" "$machine" "$compiler" -O2; done
done

cross_compilers=()
if [[ $machine != aarch64 ]]; then cross_compilers=(aarch64-linux-gnu-gcc "$clang --target=aarch64-linux-gnu"); fi
for compiler in "${cross_compilers[@]}"; do
  read -ra compiler <<< "$compiler"
  check "${backends[0]}" aarch64 "${compiler[@]}" -O0
  check "${backends[0]}" aarch64 "${compiler[@]}" -O2
  check "${backends[0]}" aarch64 "${compiler[@]}" -O3
  for backend in "${others[@]}"; do
    # There is no library for aarch64 here.
    if [[ -z $(scripts/backends.sh --library "$backend") ]]; then check "$backend" aarch64 "${compiler[@]}" -O2; fi
  done
  check "${backends[0]}" aarch64 "${compiler[@]}" -O2 -march=armv8.2-a+sve
  # Signed return addresses, and landing pads, which the tests enforce.
  check "${backends[0]}" aarch64 "${compiler[@]}" -O2 -march=armv8.5-a -mbranch-protection=standard
done

# Wrong object files

# refuse <what is wrong> <name of the object file> <compiler> <flag>...: the source is standard input.
refuse() {
  local result="1 passed, 0 failed"
  rm -rf "$scratch/objects"
  mkdir "$scratch/objects"
  if ! "${@:3}" -c - -o "$scratch/objects/$2"; then
    result="0 passed, 1 failed: does not build"
  elif scripts/check-objects.sh "$scratch/objects" > /dev/null; then
    result="0 passed, 1 failed: is not found"
  fi
  report "a wrong object file: $1" "$result"
}

# edited <architecture> <sed script>: the assembly for it, made wrong.
edited() { sed "$2" "Sources/CCoroutineContextASM/context_asm_$1.S"; }

native=(gcc -x assembler-with-cpp)
arm=(aarch64-linux-gnu-gcc -x assembler-with-cpp)
if [[ $machine == aarch64 ]]; then arm=("${native[@]}"); fi
if [[ $machine == x86_64 ]]; then
  object=context_asm_x86_64.S.o
  refuse "x86_64 without .note.GNU-stack" $object "${native[@]}" < <(edited x86_64 '/GNU-stack/d')
  refuse "x86_64 with an executable stack" $object "${native[@]}" < <(edited x86_64 's/GNU-stack, ""/GNU-stack, "x"/')
  refuse "x86_64 with IBT and SHSTK" $object gcc -x c -fcf-protection=full <<< ""
fi
object=context_asm_aarch64.S.o
refuse "aarch64 without .note.GNU-stack" $object "${arm[@]}" < <(edited aarch64 '/GNU-stack/d')
refuse "aarch64 without BTI and PAC" $object "${arm[@]}" < <(edited aarch64 '/gnu\.property/,/padding to/d')
refuse "aarch64 with GCS" $object "${arm[@]}" < <(edited aarch64 's/\.word   3 /.word   7 /')

printf '%d passed, %d failed\n' "$passed" "$failed"
((failed == 0))
