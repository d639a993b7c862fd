#!/usr/bin/env bash
# Builds and runs the conformance tests of the C layer (Tests/Assembly): the assembly backend natively, with gcc and
# clang, and for aarch64 under emulation; Boost and ucontext natively. One line for each configuration, then the sum of
# the tests. Fails if a test does, or a tool is missing.
#
# usage: scripts/test-assembly.sh
# The clang to use, and how to emulate: $CLANG (clang), $QEMU (qemu-aarch64).
set -euo pipefail
cd "$(dirname "$0")/.."

readonly machine=$(uname -m) clang=${CLANG:-clang} qemu=${QEMU:-qemu-aarch64}
readonly cross=/usr/aarch64-linux-gnu
readonly warnings=(-std=gnu11 -Wall -Wextra -Werror)

# Tools ---------------------------------------------------------------------------------------------------------------

missing=0
# need <what> <Debian package> <command that succeeds if it is there>
need() {
  local what=$1 package=$2
  shift 2
  if ! "$@" >/dev/null 2>&1; then
    echo "missing: $what (Debian, Ubuntu: apt-get install $package)" >&2
    missing=1
  fi
}
links_boost() { echo 'int main(void) { return 0; }' | gcc -x c - -o /dev/null -lboost_context; }

need gcc gcc command -v gcc
need "$clang (comes with Swift's toolchain, too)" clang command -v "$clang"
need libboost_context libboost-context-dev links_boost
if [[ $machine != aarch64 ]]; then
  need aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu command -v aarch64-linux-gnu-gcc
  need "the C library for aarch64" libc6-dev-arm64-cross test -e "$cross/include/stdio.h"
  need "$qemu" qemu-user command -v "$qemu"
fi
[[ $missing == 0 ]] || exit 2

# Configurations ------------------------------------------------------------------------------------------------------

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0
failed=0

# build <compiler> <flag>...: compiles the tests and the backend, as SwiftPM does: every file, with one set of flags.
# Frame pointers only where they are what is tested: elsewhere their register is one more that must survive.
build() {
  local compiler=("$@") source objects=() sources=(Sources/CContextASM/*.S)
  case " $* " in
    *" -DCONTEXT_TEST_BOOST "*) sources=(Sources/CContextBoost/*.c) ;;
    *" -DCONTEXT_TEST_UCONTEXT "*) sources=(Sources/CContextUcontext/*.c) ;;
  esac
  for source in "${sources[@]}" Tests/Assembly/*.c; do
    local frames=-fomit-frame-pointer object
    [[ $source == *_unwind.c ]] && frames=-fno-omit-frame-pointer
    object=$scratch/$(basename "$source").o
    objects+=("$object")
    "${compiler[@]}" "${warnings[@]}" "$frames" -fasynchronous-unwind-tables -ISources/CContextASM/include \
      -ISources/CContextBoost/include -ISources/CContextUcontext/include -c "$source" -o "$object" || return
  done
  local libraries=(-pthread -Wl,-z,now)  # binding late goes through code of the linker that has no landing pads
  [[ " $* " == *" -DCONTEXT_TEST_BOOST "* ]] && libraries+=(-lboost_context)
  "${compiler[@]}" "${objects[@]}" "${libraries[@]}" -o "$scratch/test"
}

# check <label> <runner, may be empty> <compiler> <flag>...
check() {
  local label=$1 runner=$2 result
  shift 2
  if ! build "$@"; then
    result="0 passed, 1 failed"
    label+=" (does not build)"
  # shellcheck disable=SC2086 # the runner is a command with its arguments
  elif ! result=$(timeout 300 $runner "$scratch/test" | tail -n 1) && [[ ! $result =~ ^[0-9]+\ passed ]]; then
    result="0 passed, 1 failed"
    label+=" (crashes)"
  fi
  printf '%-62s %s\n' "$label" "$result"
  read -r more_passed _ more_failed _ <<<"$result"
  passed=$((passed + more_passed))
  failed=$((failed + more_failed))
}

for compiler in gcc "$clang"; do
  for flags in -O0 -O2 "-O3 -march=native"; do
    # shellcheck disable=SC2086 # several flags
    check "$machine asm, $compiler $flags" "" "$compiler" $flags
  done
  check "$machine boost, $compiler -O2" "" "$compiler" -O2 -DCONTEXT_TEST_BOOST
  check "$machine ucontext, $compiler -O2" "" "$compiler" -O2 -DCONTEXT_TEST_UCONTEXT
done

if [[ $machine != aarch64 ]]; then
  for compiler in aarch64-linux-gnu-gcc "$clang --target=aarch64-linux-gnu"; do
    # The last two need registers and checks that not every processor has: predicates and scalable vectors (at a length
    # of 512 bits), landing pads and signed return addresses.
    for flags in -O0 -O2 -O3 "-O2 -march=armv8.2-a+sve" "-O2 -march=armv8.5-a -mbranch-protection=standard"; do
      # shellcheck disable=SC2086 # several words
      check "aarch64 asm, $compiler $flags" "$qemu -cpu max,sve512=on -L $cross" $compiler $flags
    done
  done
fi

echo "$passed passed, $failed failed"
[[ $failed == 0 ]]
