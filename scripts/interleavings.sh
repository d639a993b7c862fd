#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Scenes of a few threads in which each access to an atomic word or a lock of the runtime is a point where another thread may
# go on (Tests/CoroutineInterleavings). docs/interleavings.md says what that finds.
#
#   scripts/interleavings.sh [preemptions] [runs]   all interleavings with at most so many preemptions (1), and so many by
#                                                   chance (1000), of each scene
#   scripts/interleavings.sh defects                puts each of the kept defects into a copy of the sources: each must be found
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/steps.sh

scratch=$PWD/.build-interleavings
defects=Tests/CoroutineInterleavings/Defects

build() {  # build <folder of the package> <scratch folder>: prints the program
  local build=(swift build --package-path "$1" --product CoroutineInterleavings --traits ASM --scratch-path "$2"
    -Xswiftc -DCOROUTINE_INTERLEAVINGS -Xswiftc -suppress-warnings)  # of imports that this build does not need
  "${build[@]}" >&2
  printf '%s/CoroutineInterleavings\n' "$("${build[@]}" --show-bin-path)"
}

# A run that finds the defect fails.
find_defect() {  # find_defect <patch>
  local copy=$scratch/copy
  mkdir -p "$copy"
  cp -rT Sources "$copy/Sources"
  cp -rT Tests "$copy/Tests"
  cp Package.swift "$copy"
  patch --quiet --directory "$copy" --strip 1 < "$1"
  if "$(build "$copy" "$scratch/defects")" 1 2000; then
    printf 'The defect was not found.\n'
    return 1
  fi
}

export -f build find_defect
export scratch

case ${1:-} in
  defects)
    for patch in "$defects"/*.patch; do
      name=$(basename "$patch" .patch)
      step "${name//-/ }" bash -c "set -e; find_defect '$patch'"
    done
    ;;
  *)
    program=$(build . "$scratch")
    step "interleavings" "$program" "${1:-1}" "${2:-1000}"
    ;;
esac
steps_summary
