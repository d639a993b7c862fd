#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Scenes of a few threads in which accesses to the runtime's atomic words and locks are points where another thread may go on
# (Tests/CoroutineInterleavings). docs/interleavings.md says what that finds.
#
#   scripts/interleavings.sh [preemptions] [runs]   those with at most so many preemptions (1), and so many by chance (1000), of
#                                                   each scene
#   scripts/interleavings.sh defects                puts the kept defects into a copy of the sources: each must be found
#   scripts/interleavings.sh patches                only looks whether the kept defects can be put there
#   scripts/interleavings.sh both                   as without arguments, and `defects`, by one build: of the copy, where none of
#                                                   the defects is on, and then one after another
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/steps.sh

readonly scratch=$PWD/.build-interleavings defects=Tests/CoroutineInterleavings/Defects

build() {  # build <folder of the package> <scratch folder>: sets `program`
  local flags=(--package-path "$1" --product CoroutineInterleavings --traits ASM --scratch-path "$2"
    -Xswiftc -DCOROUTINE_INTERLEAVINGS -Xswiftc -suppress-warnings)  # of imports that this build does not need
  program=$(swift build "${flags[@]}" --show-bin-path)/CoroutineInterleavings
  rm -f "$program"
  swift build "${flags[@]}"
}

# All defects in one copy, each of which has to be turned on: SeededDefect.swift.
copy_with_defects() {  # copy_with_defects <folder of the copy>
  local patch module
  rm -rf "$1"
  mkdir -p "$1"
  cp -r Sources Tests Package.swift "$1"
  for module in Context Coroutine/Core; do cp "$defects/SeededDefect.swift" "$1/Sources/$module"; done
  for patch in "$defects"/*.patch; do
    patch --quiet --fuzz 0 --no-backup-if-mismatch --directory "$1" --strip 1 < "$patch" && continue
    echo "$patch no longer fits the sources: what it changes was changed" >&2
    return 1
  done
}

build_with_defects() {
  copy_with_defects "$scratch/copy"
  build "$scratch/copy" "$scratch/defects"
}

# A run finds the defect if it fails: by a scene that says so, or by a trap of the runtime's own checks.
find_defect() {  # find_defect <program> <patch>
  local name scene output status=0
  name=$(basename "$2" .patch)
  scene=$(sed -n '1s/^Found by: //p' "$2")
  output=$(COROUTINE_SEEDED_DEFECT=$name "$1" 1 2000 "$scene" 2>&1) || status=$?
  printf '%s\n' "$output"
  ((status != 0)) && grep -qE '^FAILED: |Fatal error: ' <<< "$output"
}
export -f find_defect

find_defects() {
  local patch name
  for patch in "$defects"/*.patch; do
    name=$(basename "$patch" .patch)
    step "${name//-/ }" bash -euo pipefail -c "find_defect '$program' '$patch'"
  done
}

case ${1:-} in
  patches)
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    copy_with_defects "$folder/copy"
    exit
    ;;
  defects)
    build_with_defects
    find_defects
    ;;
  both)
    build_with_defects
    step "interleavings" "$program" 1 1000
    find_defects
    ;;
  *)
    build . "$scratch"
    step "interleavings" "$program" "${1:-1}" "${2:-1000}"
    ;;
esac
steps_summary
