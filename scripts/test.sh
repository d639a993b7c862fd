#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the tests. Each argument is a run, <backend>-<mode>: one of scripts/backends.sh; debug, release, thread or address
# (the sanitizers, in debug). Without arguments: all backends in debug, the default one in release, and its debug
# build again on one processor and on two, where tests would block each other. `-one` or `-two` at the end of a run
# confines it: ASM-release-one.
#
#   scripts/test.sh
#   scripts/test.sh Boost-thread ASM-address
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/steps.sh
source scripts/build-options.sh
steps_need_tests=yes
# A run of a fresh clone builds everything first: on one processor that takes a quarter of an hour, and the tests six minutes.
steps_limit=${STEP_LIMIT:-$(($(nproc) < 3 ? 3600 / $(nproc) : 1200))}
steps_signal=INT  # at any other signal, SwiftPM leaves its test program running

# A race ends the run at once: what follows would only repeat it. The leak check is at the end of the program.
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1}
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1}

# allowed_processors <number>: that many of the processors that this process may run on, in the form that taskset
# takes.
allowed_processors() {
  awk -v number="$1" '/^Cpus_allowed_list:/ {
    count = split($2, ranges, ",")
    for (i = 1; i <= count; i++) {
      split(ranges[i], ends, "-")
      if (ends[2] == "") ends[2] = ends[1]
      for (cpu = ends[1]; cpu <= ends[2] && found < number; cpu++) list = list (found++ ? "," : "") cpu
    }
    print list
  }' /proc/self/status
}

run_tests() {  # run_tests <backend> <mode> [one|two]
  local backend=$1 mode=$2 processors=${3:-} one_by_one=() confined=() as_built=()
  set_build_options "$backend" "$mode"
  case $mode in
    # `swift test` would repeat the option for testable imports, and so compile all that `swift build` has built, and the other
    # way round.
    release) as_built=(--disable-testable-imports) ;;
    # One test at a time: under ThreadSanitizer the Swift runtime takes a lock for each look at generic metadata, and parallel
    # tests would mostly wait for it. Under AddressSanitizer parallel tests need more memory than many machines have.
    thread | address) one_by_one=(--no-parallel) ;;
  esac
  if ! scripts/backends.sh | grep -qx "$backend"; then
    printf 'unknown backend "%s": one of %s\n' "$backend" "$(scripts/backends.sh | xargs)" >&2
    exit 2
  fi
  case $processors in
    "") ;;
    one) confined=(taskset --cpu-list "$(allowed_processors 1)") ;;
    two) confined=(taskset --cpu-list "$(allowed_processors 2)") ;;
    *) printf 'unknown number of processors "%s": one or two\n' "$processors" >&2; exit 2 ;;
  esac
  # Line by line, so that the log of a run that hangs shows the test. XCTest would only report that it ran none.
  step "$backend, $mode${processors:+, on $processors}" "${confined[@]}" \
    stdbuf -oL swift test --disable-xctest "${as_built[@]}" "${build_options[@]}" "${one_by_one[@]}"
}

if (($# == 0)); then
  set -- ASM-debug ASM-debug-one
  for backend in $(scripts/backends.sh | tail -n +2); do set -- "$@" "$backend-debug"; done
  set -- "$@" ASM-release
  if (($(nproc) > 2)); then set -- "$@" ASM-debug-two; fi
fi
for run; do
  IFS=- read -r backend mode processors <<< "$run"
  run_tests "$backend" "$mode" "$processors"
done
steps_summary
