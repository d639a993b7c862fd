#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs the libraries by CMake, static and shared, and lets another project (Tests/CMake) find, link and run
# them; the same with their sources in that project, whose C compiler is gcc; the assembly alone, by pkg-config. Then what a
# project is told that they can't serve.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/steps.sh

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export scratch
export PKG_CONFIG_PATH=$scratch/static/lib/pkgconfig
readonly expected="ASM 6 hello"
export expected

configure() { cmake -G Ninja -S . -DCOROUTINE_TESTS=OFF -DWARNINGS_AS_ERRORS=ON -DCMAKE_INSTALL_LIBDIR=lib "$@"; }

dependent() { cmake -G Ninja -S Tests/CMake -B "$1" "${@:2}"; }

run_dependent() {  # run_dependent <build folder>
  cmake --build "$1" --target dependent && [[ $("$1/dependent") == "$expected" ]]
}

# The folder is moved, and the build is gone before it is used.
install_as() {  # install_as <name> <option>...
  configure -B "$scratch/build-$1" "${@:2}" && cmake --build "$scratch/build-$1" &&
    cmake --install "$scratch/build-$1" --prefix "$scratch/elsewhere-$1" &&
    mv "$scratch/elsewhere-$1" "$scratch/$1" && rm -r "$scratch/build-$1"
}

use_installed() {  # use_installed <name>
  dependent "$scratch/use-$1" -DCMAKE_PREFIX_PATH="$scratch/$1" -DCOROUTINE_COMPONENTS="CoroutineIO;CoroutineDebug" &&
    run_dependent "$scratch/use-$1"
}

tells_overflow() {  # tells_overflow <name>
  cmake --build "$scratch/use-$1" --target overflow && is_told "\"deep\"" "$scratch/use-$1/overflow"
}

# Only what the program needs is built.
use_sources() {
  dependent "$scratch/use-sources" -DCOROUTINE_SOURCE="$PWD" -DCMAKE_C_COMPILER=gcc && run_dependent "$scratch/use-sources"
}

use_assembly() {
  # shellcheck disable=SC2046  # several flags
  gcc -o "$scratch/switches" Tests/CMake/main.c $(pkg-config --cflags --libs coroutine-context-asm) &&
    [[ $("$scratch/switches") == 3 ]]
}

is_told() {  # is_told <words> <command>...: it fails, and says so
  local output
  if output=$("${@:2}" 2>&1); then printf 'error: it did not fail\n'; return 1; fi
  [[ $(tr -s ' \n' ' ' <<< "$output") == *"$1"* ]] || { printf 'error: it said %s\n' "$output"; return 1; }
}

lacks_component() {
  is_told "It was built without CoroutineNothing" \
    dependent "$scratch/refused-1" -DCMAKE_PREFIX_PATH="$scratch/static" -DCOROUTINE_COMPONENTS=CoroutineNothing
}

other_swift() {
  sed -i 's/\(set(Coroutine_SWIFT_VERSION\) .*/\1 6.2.9)/' "$scratch/static/lib/cmake/Coroutine/CoroutineConfig.cmake"
  is_told "It was built by Swift 6.2.9" dependent "$scratch/refused-2" -DCMAKE_PREFIX_PATH="$scratch/static"
}

other_generator() { is_told "Swift needs the Ninja generator" cmake -G "Unix Makefiles" -S . -B "$scratch/refused-3"; }

export -f configure dependent run_dependent install_as use_installed tells_overflow use_sources use_assembly is_told lacks_component \
  other_swift other_generator

start_step "static: install" bash -c "install_as static -DCMAKE_BUILD_TYPE=Debug"
start_step "shared: install" bash -c "install_as shared -DCMAKE_BUILD_TYPE=Debug -DBUILD_SHARED_LIBS=ON"
start_step "sources, beside gcc" bash -c use_sources
end_steps
step "static: find_package" bash -c "use_installed static"
step "shared: find_package" bash -c "use_installed shared"
step "static: an overflow is told" bash -c "tells_overflow static"
step "shared: an overflow is told" bash -c "tells_overflow shared"
step "static: pkg-config" bash -c use_assembly
step "a component that is missing" bash -c lacks_component
step "another version of Swift" bash -c other_swift
step "another generator" bash -c other_generator
steps_summary
