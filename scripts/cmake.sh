#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the project with CMake and runs its tests by ctest. Each argument is a context backend, in small letters;
# without arguments all of them are built.
#
#   scripts/cmake.sh [<backend>]...
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/steps.sh
steps_need_tests=yes

build_and_test() {  # build_and_test <backend>
  local folder=.build-cmake-$1
  cmake -G Ninja -S . -B "$folder" -DCONTEXT_BACKEND="$1" -DWARNINGS_AS_ERRORS=ON &&
    cmake --build "$folder" &&
    NO_COLOR=1 ctest --test-dir "$folder" --verbose
}
export -f build_and_test

if (($# == 0)); then set -- $(scripts/backends.sh | tr "[:upper:]" "[:lower:]"); fi
for backend; do step "CMake, $backend" bash -c "build_and_test '$backend'"; done
steps_summary
