#!/usr/bin/env bash
# Checks which folders refer to which (scripts/arrows.sh), and the format of all Swift files, as .swift-format says: any
# finding is an error. To mend what can be mended of the format:
#
#   swift format --in-place --recursive Sources Tests
#
# That each context backend is named where it must be, see scripts/backends.sh. And that each suite of tests runs on threads that it may block, see Tests/CoroutineTestSupport/OwnThreads.swift.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/arrows.sh
scripts/test-arrows.sh
scripts/backends.sh --check

# Builds leave sources of others in hidden folders, and generated ones elsewhere: only these places are ours to judge.
roots=()
for root in Package.swift Sources Tests Benchmarks Examples Tools; do
  if [[ -e $root ]]; then roots+=("$root"); fi
done
find "${roots[@]}" -name '.?*' -prune -o -name '*.swift' -type f -print0 |
  xargs -0 swift format lint --strict --parallel

# Each file that others build says under which license.
without=$(find Sources -name '.?*' -prune -o \( -name '*.swift' -o -name '*.[chS]' \) -type f -print0 |
  xargs -0 grep -L -m 1 '^// SPDX-License-Identifier: Apache-2.0$' || true)
if [[ -n $without ]]; then
  printf 'lint: these files need the line "// SPDX-License-Identifier: Apache-2.0" at the top\n%s\n' "$without" >&2
  exit 1
fi

# A suite without the trait may block Swift's cooperative pool, and then the whole run, on a machine of two processors.
without=$(find Tests -name '*.swift' -exec awk '
  /^@Test|@Suite/ { begins = FILENAME ":" FNR ": " $0; text = "" }
  begins != "" { text = text $0 }
  begins != "" && / (func|struct|class|enum|actor) / { if (text !~ /\.ownThreads/) print begins; begins = "" }' {} \;)
if [[ -n $without ]]; then
  printf 'lint: these tests may block the cooperative pool: they need the trait .ownThreads\n%s\n' "$without" >&2
  exit 1
fi
