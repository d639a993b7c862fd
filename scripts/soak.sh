#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Load for minutes on each backend, in release: the sums must be right, and the memory must stay flat. docs/faults.md
# says what runs.
#
#   scripts/soak.sh [minutes] [backend]...     5, all of them
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/steps.sh
source scripts/build-options.sh

minutes=${1:-5}
shift || true
if ! [[ $minutes =~ ^[1-9][0-9]*$ ]]; then
  printf 'soak: "%s" is no number of minutes\n' "$minutes" >&2
  exit 2
fi
if (($# == 0)); then
  mapfile -t backends < <(scripts/backends.sh)
  set -- "${backends[@]}"
fi
steps_limit=$((60 * minutes + 1200))
for backend; do
  set_build_options "$backend" release
  build=(swift build --product CoroutineSoak "${build_options[@]}")
  step "$backend, build" "${build[@]}"
  step "$backend, $minutes min" "$("${build[@]}" --show-bin-path)/CoroutineSoak" "$((60 * minutes))"
done
steps_summary
