#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the benchmarks (the runtime on each backend, the peers in C++ and Go) and runs them beside each other. The tables
# go to the terminal, the figures to Benchmarks/results/: latest.json, machine.json, report.md with charts.
#
#   scripts/bench.sh [option]...
#
# The options are those of the program: --full, --only TEXT, --check, see Benchmarks/README.md. A peer that can't be
# built here appears in the tables as missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly programs=$PWD/.build-bench/programs
mkdir -p "$programs"
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# build <program> <command>...: reports why there is no such program if the command fails, and goes on.
build() {
  local name=$1
  shift
  printf 'Building %s ...\n' "$name"
  if ! "$@" > "$log" 2>&1; then
    rm -f "$programs/$name"
    printf 'bench: %s could not be built, and is missing in what follows:\n' "$name" >&2
    grep -m 3 -E 'error|rror:|not found|cannot find' "$log" | sed 's/^/  /' >&2 || sed 's/^/  /' "$log" >&2
    return 1
  fi
}

has_boost=no
can_link() {  # can_link <library>
  printf 'int main(void) { return 0; }\n' | clang -x c - -o "$programs/empty" "-l$1" 2> /dev/null && rm "$programs/empty"
}
if can_link boost_context; then has_boost=yes; fi

build_runtime() {  # build_runtime <backend>
  local traits=$1
  if [[ $has_boost == yes ]]; then traits+=,BoostLibrary; fi
  local swift=(swift build --package-path Benchmarks --scratch-path ".build-bench/$1" --traits "$traits")
  swift+=(--configuration release)
  "${swift[@]}" --product benchmarks -Xswiftc -warnings-as-errors || return
  ln -sf "$("${swift[@]}" --show-bin-path)/benchmarks" "$programs/runtime-$1"
}

for backend in $(scripts/backends.sh); do
  library=$(scripts/backends.sh --library "$backend")
  if [[ -z $library ]] || can_link "$library"; then
    build "runtime-$backend" build_runtime "$backend" || exit 1
  else
    rm -f "$programs/runtime-$backend"
    printf 'bench: lib%s is not installed: the backend %s is missing in what follows.\n' "$library" "$backend" >&2
  fi
done

build_cpp() {  # build_cpp <program> <source> <library>...
  local program=$1 source=$2
  shift 2
  g++ -std=c++20 -O2 -Wall -Wextra -Werror "Benchmarks/Peers/cpp/$source" -o "$programs/$program" "${@/#/-l}" -pthread
}

build cxx20 build_cpp cxx20 cxx20.cpp || true
build boost-context build_cpp boost-context boost_context.cpp boost_context || true
build boost-fiber build_cpp boost-fiber boost_fiber.cpp boost_fiber boost_context || true
build go env GOFLAGS=-mod=mod bash -c "cd Benchmarks/Peers/go && go build -o '$programs/go' ." || true

versions=(--version "$(swift --version 2> /dev/null | grep -m 1 'Swift version')")
add_version() { if [[ -x $programs/$1 && -n ${2-} ]]; then versions+=(--version "$2"); fi; }
add_version runtime-ASM "commit $(git describe --always --dirty 2> /dev/null || echo unknown)"
if [[ $(clang --version 2> /dev/null) =~ clang\ version\ [0-9.]+ ]]; then add_version runtime-ASM "${BASH_REMATCH[0]}"; fi
dependencies=$(swift package --package-path Benchmarks --scratch-path .build-bench/ASM show-dependencies 2> /dev/null || true)
if [[ $dependencies =~ swift-async-algorithms@([0-9.]+) ]]; then
  add_version runtime-ASM "swift-async-algorithms ${BASH_REMATCH[1]}"
fi
add_version go "$(go version 2> /dev/null || true)"
add_version cxx20 "$(g++ --version 2> /dev/null | head -n 1 || true)"
boost_version=$(grep -h -s -m 1 '#define BOOST_LIB_VERSION' /usr/include/boost/version.hpp /usr/local/include/boost/version.hpp || true)
if [[ $boost_version =~ \"(.*)\" ]]; then add_version boost-context "Boost ${BASH_REMATCH[1]//_/.}"; fi

printf '\n'
exec "$programs/runtime-ASM" --programs "$programs" --results Benchmarks/results "${versions[@]}" "$@"
