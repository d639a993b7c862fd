#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Refuses each system call in turn to small programs: each must be survived, or told. docs/faults.md has the table.
#
#   scripts/faults.sh [fault]...     mmap, clone, futex, ...; without arguments all of them
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/steps.sh

# As scripts/test.sh builds it, so that its build is used again.
build=(swift build --product CoroutineFaultPrograms --traits ASM --scratch-path .build-ASM-debug
  -Xswiftc -warnings-as-errors -Xcc -Wall -Xcc -Werror)
step "build" "${build[@]}"
step "each call in turn" "$("${build[@]}" --show-bin-path)/CoroutineFaultPrograms" all "$@"
steps_summary
