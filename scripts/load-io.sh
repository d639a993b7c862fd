#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Measures what many connections leave behind in a server: the example's echo server, in release.
#
#   scripts/load-io.sh [connections] [connects per second] [seconds]     10000 2000 60
#
# First all of the connections at once, with one message each, and then idle: the server's memory for each of them.
# Then connects, messages and closes at the given rate. At the end the server must have no descriptor more than
# before, and hardly more memory.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

connections=${1:-10000} rate=${2:-2000} seconds=${3:-60}
# The memory that one idle connection may take, and the growth that the connects and closes may cause.
readonly most_bytes=6144 most_growth_kib=2048
programs=$PWD/.build-load
mkdir -p "$programs"

need=$((connections + 100))
if ! ulimit -n "$need" 2> /dev/null; then
  printf 'load-io: %d connections need as many open files, and %s are allowed: raise the limit, or ask for fewer.\n' \
    "$connections" "$(ulimit -Hn)" >&2
  exit 1
fi

# In the demo's folder, so that its build is used again.
build=(swift build --package-path Examples --scratch-path .build-demo-ASM --traits ASM --configuration release)
"${build[@]}" --product echo-server > "$programs/build.log" 2>&1 || {
  tail -n 20 "$programs/build.log" >&2
  exit 1
}
server_program=$("${build[@]}" --show-bin-path)/echo-server
clang -O2 -Wall -Werror Benchmarks/Peers/c/load.c -o "$programs/load"

"$server_program" 0 > "$programs/server.log" 2>&1 &
server=$!
trap 'kill "$server" 2> /dev/null || true' EXIT
until port=$(sed -n 's/^listening on .*://p' "$programs/server.log") && [[ -n $port ]]; do
  kill -0 "$server" 2> /dev/null || { cat "$programs/server.log" >&2; exit 1; }
  sleep 0.05
done

# The resident memory and the kernel's page tables for it, in KiB.
memory() { awk '/^(RssAnon|VmPTE):/ { sum += $2 } END { print sum }' "/proc/$server/status"; }
descriptors() { find "/proc/$server/fd" -mindepth 1 | wc -l; }

# From here on everything exists that the first connection creates.
"$programs/load" churn "$port" 100 1 > "$programs/churn.log"
at_rest=$(descriptors)
before=$(memory)

mkfifo "$programs/end" 2> /dev/null || true
"$programs/load" idle "$port" "$connections" < "$programs/end" > "$programs/idle.log" &
idle=$!
exec 9> "$programs/end"
until grep -q open "$programs/idle.log"; do
  kill -0 "$idle" 2> /dev/null || { printf 'load-io: the connections could not be opened.\n' >&2; exit 1; }
  sleep 0.1
done
bytes=$(((($(memory) - before) * 1024) / connections))
printf '%d idle connections: %d bytes each, of at most %d\n' "$connections" "$bytes" "$most_bytes"
exec 9>&-
wait "$idle"
for _ in $(seq 600); do
  if (($(descriptors) <= at_rest)); then break; fi
  sleep 0.1
done

# A tenth of it first, for what so many connections at a time leave in the allocator and the pool of stacks.
"$programs/load" churn "$port" "$rate" "$(((seconds + 9) / 10))" > "$programs/churn.log"
before=$(memory)
"$programs/load" churn "$port" "$rate" "$seconds" | tee "$programs/churn.log"
growth=$(($(memory) - before))
for _ in $(seq 50); do
  if (($(descriptors) <= at_rest)); then break; fi
  sleep 0.1
done
printf 'the server grew by %d KiB, of at most %d; descriptors: %d, %d before\n' "$growth" "$most_growth_kib" "$(descriptors)" "$at_rest"

passed=0 failed=0
check() { if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi; }
check test "$bytes" -le "$most_bytes"
check grep -q ' failed 0 in' "$programs/churn.log"
check test "$growth" -le "$most_growth_kib"
check test "$(descriptors)" -le "$at_rest"
printf '%d passed, %d failed\n' "$passed" "$failed"
exit "$failed"
