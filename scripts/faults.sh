#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Refuses each system call in turn to small programs: each must be survived, or told. docs/faults.md has the table.
#
#   scripts/faults.sh [fault]...     mmap, clone, futex, ...; without arguments all of them
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/steps.sh
source scripts/build-options.sh

set_build_options ASM debug
build=(swift build --product CoroutineFaultPrograms "${build_options[@]}")
step "build" "${build[@]}"
step "each call in turn" "$("${build[@]}" --show-bin-path)/CoroutineFaultPrograms" all "$@"
steps_summary
