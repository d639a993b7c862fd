#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the project with CMake and runs its tests by ctest. Each argument is a context backend, in small letters;
# without arguments all of them are built. `-short` at the end of one leaves out the tests of Coroutine, CoroutineTesting and
# CoroutineDebug, which take most of the time.
#
#   scripts/cmake.sh [<backend>[-short]]...
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/steps.sh
steps_need_tests=yes

build_and_test() {  # build_and_test <backend> [<test>]...
  local folder=.build-cmake-$1 tests=("${@:2}") build=() selection=()
  if ((${#tests[@]})); then
    build=(--target "${tests[@]}")
    selection=(--tests-regex "^($(IFS="|"; printf '%s' "${tests[*]}"))\$")
  fi
  cmake -G Ninja -S . -B "$folder" -DCONTEXT_BACKEND="$1" -DWARNINGS_AS_ERRORS=ON &&
    cmake --build "$folder" "${build[@]}" &&
    NO_COLOR=1 ctest --test-dir "$folder" --verbose "${selection[@]}"
}
export -f build_and_test

if (($# == 0)); then set -- $(scripts/backends.sh | tr "[:upper:]" "[:lower:]"); fi
for run; do
  tests=()
  if [[ $run == *-short ]]; then tests=(CoroutineContextTests CoroutineIOTests); fi
  step "CMake, $run" bash -c 'build_and_test "$@"' bash "${run%-short}" "${tests[@]}"
done
steps_summary
