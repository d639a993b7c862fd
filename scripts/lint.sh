#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks which folders refer to which (scripts/arrows.sh), and the format of all Swift files (.swift-format). Any
# finding is an error. To correct the format where possible:
#
#   swift format --in-place --recursive Sources Tests
#
# Also checks that the folder Core stays small and names no primitive (scripts/check-core.sh), that the ways through the code are
# as docs/ARCHITECTURE.md says (scripts/check-ways.sh), that each context backend
# is named where it must be (scripts/backends.sh), that the code which litmus tests model is there (scripts/litmus.sh),
# that the kept defects fit the sources (scripts/interleavings.sh),
# that state machines are changed by their own methods, that each suite of tests runs on threads that it may block
# (Tests/CoroutineTestSupport/OwnThreads.swift), that no task of a test blocks its thread, and that no name of a test is longer
# than 60 letters.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/arrows.sh
scripts/test-arrows.sh
scripts/check-core.sh
scripts/check-ways.sh
scripts/backends.sh --check
scripts/litmus.sh --names
scripts/interleavings.sh patches

# Builds leave sources of other packages in hidden folders, and generated ones elsewhere. Only these folders are
# checked.
roots=()
for root in Package.swift Sources Tests Benchmarks Examples Tools; do
  if [[ -e $root ]]; then roots+=("$root"); fi
done
find "${roots[@]}" -name '.?*' -prune -o -name '*.swift' -type f -print0 |
  xargs -0 swift format lint --strict --parallel

# Each file of sources names its license. (REUSE.toml does so for all others, such as tests, whose lines are known to tests,
# and examples, which are for copying.)
without=$(find Package.swift CMakeLists.txt cmake Sources Benchmarks Tools scripts -name '.?*' -prune -o \
  -type f \( -name '*.swift' -o -name '*.[chS]' -o -name '*.cpp' -o -name '*.go' -o -name '*.sh' -o -name '*.awk' -o -name '*.py' \
  -o -name '*.js' -o -name '*.cmake' -o -name CMakeLists.txt \) -print0 | xargs -0 grep -L -m 1 -E '^(//|#) SPDX-License-Identifier[:] Apache-2.0$' || true)
if [[ -n $without ]]; then
  printf 'lint: these files need a line "SPDX-License-%s", as a comment, at the top\n%s\n' \
    'Identifier: Apache-2.0' "$without" >&2
  exit 1
fi

# What a primitive has is changed by the methods of its state machine alone.
doors=$(grep -rn -E 'machine\.[a-zA-Z]+\.(append|remove|pop|claim|insert|take)[A-Za-z]*\(|&machine\.' Sources/Coroutine --include='*.swift' |
  grep -v 'StateMachine\.swift:' || true)
if [[ -n $doors ]]; then
  printf 'lint: this changes a state machine from outside; it needs a method there\n%s\n' "$doors" >&2
  exit 1
fi

# A test without the trait may block Swift's cooperative pool, and then the whole run, on a machine with two processors. It
# has the trait if it names it, or a type around it does. An extension has it as the type has, which is above it.
without=$(find Tests -name '*.swift' -exec awk '
  FNR == 1 { header = ""; split("", owns); split("", types) }
  { match($0, /^ */); indent = RLENGTH }
  /^ *}/ { delete owns[indent] }
  header == "" && /^ *(@Test|@Suite|([a-z]+ )*(struct|class|enum|actor|extension) [A-Z`])/ {
    place = FILENAME ":" FNR ": " $0
    level = indent
    header = " "
  }
  header != "" { header = header $0 " " }
  header ~ / func / || (header !~ /@Test/ && header ~ / (struct|class|enum|actor|extension) /) {
    own = header ~ /\.ownThreads/
    for (outer in owns) if (outer + 0 < level && owns[outer]) own = 1
    if (header ~ /@Test/) {
      if (!own) print place
    } else if (match(header, / (struct|class|enum|actor|extension) (`[^`]+`|[A-Za-z0-9_.]+)/)) {
      name = substr(header, RSTART, RLENGTH)
      is_extension = name ~ /^ extension/
      sub(/^ [a-z]+ /, "", name)
      if (!is_extension) types[name] = own
      owns[level] = own || types[name]
    }
    header = ""
  }' {} +)
if [[ -n $without ]]; then
  printf 'lint: these tests may block the cooperative pool: they need the trait .ownThreads\n%s\n' "$without" >&2
  exit 1
fi

# A `Task` runs in the pool whatever the trait says. Child tasks, which have the trait's executor, are held to the same. Their
# bodies end where the indentation does.
# BlockedThreadTests.swift does it on purpose: in processes of its own it looks for the warning.
blocking=$(find Tests -name '*.swift' ! -name BlockedThreadTests.swift -exec awk '
  FNR == 1 { inside = 0 }
  { match($0, /^ */); indent = RLENGTH }
  inside && indent <= level && /^ *}/ { inside = 0 }
  match($0, /(^|[^A-Za-z])(Task|Task\.detached|addTask)(\([^)]*\))? *\{/) {
    if (substr($0, RSTART) ~ /Blocking\(/) print FILENAME ":" FNR ": " $0
    # Unless it ends on its line.
    if (!inside && !/\}[^{]*$/) { inside = 1; level = indent }
    next
  }
  inside && /Blocking\(/ && !/PlainThread/ { print FILENAME ":" FNR ": " $0 }' {} +)
if [[ -n $blocking ]]; then
  printf 'lint: these tasks block a thread of the cooperative pool: a PlainThread may\n%s\n' "$blocking" >&2
  exit 1
fi

long=$(find Tests -name '*.swift' -exec awk '
  match($0, /func (`[^`]*`|[A-Za-z0-9_]+)/) {
    name = substr($0, RSTART + 5, RLENGTH - 5)
    gsub(/`/, "", name)
    if (length(name) > 60) print FILENAME ":" FNR ": " name
  }' {} +)
if [[ -n $long ]]; then
  printf 'lint: these names of tests have more than 60 letters\n%s\n' "$long" >&2
  exit 1
fi
