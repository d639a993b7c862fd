#!/usr/bin/env bash
# Checks the format of all Swift files, as .swift-format says: any finding is an error. To mend what can be mended:
#
#   swift format --in-place --recursive Sources Tests
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Builds leave sources of others in hidden folders, and generated ones elsewhere: only these places are ours to judge.
roots=()
for root in Package.swift Sources Tests Benchmarks Examples Tools; do
  if [[ -e $root ]]; then roots+=("$root"); fi
done
find "${roots[@]}" -name '.?*' -prune -o -name '*.swift' -type f -print0 |
  xargs -0 swift format lint --strict --parallel
