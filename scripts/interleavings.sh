#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Scenes of a few threads in which accesses to the runtime's atomic words and locks are points where another thread may go on
# (Tests/CoroutineInterleavings). docs/interleavings.md says what that finds.
#
#   scripts/interleavings.sh [preemptions] [runs]   those with at most so many preemptions (1), and so many by chance (1000), of
#                                                   each scene
#   scripts/interleavings.sh defects                puts each of the kept defects into a copy of the sources: each must be found
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/steps.sh

scratch=$PWD/.build-interleavings

build() {  # build <folder of the package> <scratch folder>: sets `program`
  local flags=(--package-path "$1" --product CoroutineInterleavings --traits ASM --scratch-path "$2"
    -Xswiftc -DCOROUTINE_INTERLEAVINGS -Xswiftc -suppress-warnings)  # of imports that this build does not need
  program=$(swift build "${flags[@]}" --show-bin-path)/CoroutineInterleavings
  rm -f "$program"
  swift build "${flags[@]}"
}

# A run finds the defect if it fails: by a scene that says so, or by a trap of the runtime's own checks.
find_defect() {  # find_defect <patch>
  local copy=$scratch/copy output status=0
  rm -rf "$copy"
  mkdir -p "$copy"
  cp -r Sources Tests Package.swift "$copy"
  patch --quiet --directory "$copy" --strip 1 < "$1"
  build "$copy" "$scratch/defects"
  output=$("$program" 1 2000 2>&1) || status=$?
  printf '%s\n' "$output"
  ((status != 0)) && grep -qE '^FAILED: |Fatal error: ' <<< "$output"
}
export -f build find_defect
export scratch

if [[ ${1:-} == defects ]]; then
  for patch in Tests/CoroutineInterleavings/Defects/*.patch; do
    name=$(basename "$patch" .patch)
    step "${name//-/ }" bash -euo pipefail -c "find_defect '$patch'"
  done
else
  build . "$scratch"
  step "interleavings" "$program" "${1:-1}" "${2:-1000}"
fi
steps_summary
