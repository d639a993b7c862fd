#!/usr/bin/env bash
# Builds the benchmarks and runs them on one processor. The table goes to the terminal, the figures to
# Benchmarks/results/latest.json, the machine and the versions to machine.json beside it.
#
#   scripts/bench.sh [ASM|Boost|Ucontext] [option]...
#
# The first word is the backend that the runtime itself runs on (ASM without one); the backends alone are compared in any
# case. The options are those of the program: --full, --only TEXT, see Benchmarks/README.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

backend=ASM
case ${1:-} in
  ASM | Boost | Ucontext)
    backend=$1
    shift
    ;;
esac

# The yardstick is in Boost's library. Without it the program says what is missing and measures the rest.
can_link_boost() {
  local folder
  folder=$(mktemp -d)
  printf 'int main(void) { return 0; }\n' > "$folder/empty.c"
  local status=0
  clang "$folder/empty.c" -o "$folder/empty" -lboost_context 2> /dev/null || status=$?
  rm -rf "$folder"
  return "$status"
}
traits=$backend
if can_link_boost; then
  traits+=,BoostLibrary
else
  printf 'libboost_context is not installed (Debian, Ubuntu: apt-get install libboost-context-dev).\n' >&2
  printf 'Without it jump_fcontext, the yardstick, cannot be measured, nor the Boost backend.\n\n' >&2
fi

build=(--package-path Benchmarks --scratch-path ".build-bench-$backend" --traits "$traits" --configuration release)
build+=(-Xswiftc -warnings-as-errors -Xcc -Werror)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
printf 'Building the benchmarks on %s ...\n' "$backend"
if ! swift build "${build[@]}" --product benchmarks > "$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi

version=$(swift --version 2> /dev/null | grep -m 1 'Swift version')
"$(swift build "${build[@]}" --show-bin-path)/benchmarks" --swift "$version" --results Benchmarks/results "$@"
