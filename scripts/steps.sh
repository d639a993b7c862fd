# SPDX-License-Identifier: Apache-2.0
#
# shellcheck shell=bash
# Sourced by scripts that run several steps, one after another or some at the same time. They end with a table of the
# steps, and with the line `N passed, N failed` (`, N skipped` follows where steps were left out). A failed step does
# not stop the others: the table shows everything that is broken, and the exit code tells of it.
#
# What a step counts for: its own closing line `N passed, N failed`, or else the tests of Swift Testing in its output.
# A step that has neither (a build, the linter) counts as one. A step that failed has at least one failure, whatever
# its output says: a crash has no closing line, and a leak is found after it.

steps_folder=${STEPS_FOLDER:-.build-logs}
steps_limit=${STEP_LIMIT:-1200}  # seconds; a hang is a failure too
steps_signal=TERM                # the signal that then ends the step
steps_at_once=${STEPS_AT_ONCE:-1000}  # how many steps of start_step may run at the same time
steps_latest=${STEPS_LATEST:-1000000}  # seconds since the script began, for start_step_in_time
steps_need_tests=no              # yes: a step without tests in its output has failed
steps_table=()
steps_passed=0
steps_failed=0
steps_skipped=0
declare -A steps_running=()      # the names of the running steps, by their processes
declare -A steps_log=() steps_beginning=()  # likewise
steps_processor_time=0           # of the steps that have ended, in the kernel's ticks
steps_errors=()                  # what failed, repeated below the table

# Each step is a process group of its own (by `timeout`), which an interrupt from the keyboard does not reach.
trap 'for child in "${!steps_running[@]}"; do kill "-$steps_signal" "$child" 2> /dev/null || true; done; exit 130' INT TERM

readonly steps_ticks_per_second=$(getconf CLK_TCK)

# The beginning of Swift Testing's lines, also behind the number that ctest puts before them.
readonly steps_test_line='^([0-9]+: )?[^ ]+ Test '

readonly steps_closing_line='^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$'

# count_tests <log>: prints "passed failed", or 0 0 for a log without tests. `Test run with N tests` counts a
# parameterised test once, and counts disabled tests, too.
count_tests() {
  awk -v test_line="$steps_test_line" '
    $0 !~ test_line || / Test case / { next }
    match($0, / Test run with [0-9]+ tests? .*(passed|failed) after /) {
      split(substr($0, RSTART + 1), word, " "); total += word[4]; next
    }
    / skipped/ { skipped++ }
    / passed after [0-9.]+ seconds/ { passed++ }
    / failed after [0-9.]+ seconds/ { failed++ }
    END {
      # A run that crashed has no total. Only the tests that ended before are known.
      if (total < passed + failed + skipped) total = passed + failed + skipped
      print total - failed - skipped, failed + 0
    }' "$1"
}

# The tests that were running when a run crashed or exceeded its time.
unfinished_tests() {
  awk -v test_line="$steps_test_line" '
    $0 !~ test_line || / Test (case|run) / { next }
    { name = $0; sub(test_line, "", name) }
    sub(/ started\.$/, "", name) { running[name] = 1; next }
    sub(/ (with [0-9]+ test cases? )?(passed|failed) after .*$/, "", name) { delete running[name] }
    END { for (name in running) print "did not end: " name }' "$1"
}

# Warnings that no flag turns into errors: SwiftPM's and CMake's own, and the linker's. Output of tests does not
# count.
build_warnings() {
  sed '/ Test run started\.$/,$d' "$1" | grep -E ": warning: |^warning: '|^CMake .*Warning" | sort -u
}

# The errors of a log, each once. A log of steps has them collected at its end.
log_errors() {
  local log=$1
  if grep -qE "$steps_closing_line" "$log"; then
    grep '^! ' "$log" | sed 's/^! //' || true
  else
    # An expectation that failed goes on for some lines, with what was found and its comments: a hung child's frames, say.
    awk '
      / Test .*recorded an issue/ { if (!seen[$0]++) { print; rest = 20 } next }
      /^([0-9]+: )?(◇|✔|✘|⚠︎) / || /^$/ { rest = 0 }
      /(: |^)(Fatal )?error: | unexpected signal |SUMMARY: [A-Za-z]+Sanitizer| Test .* failed after / {
        if (!seen[$0]++) print
        next
      }
      rest-- > 0' "$log" | head -n 40 || true
    unfinished_tests "$log" | head -n 10 || true
  fi
}

# under <step>: marks the lines of standard input as that step's errors.
under() { awk -v step="$1" '{ print "! " step ": " $0 }'; }

# The end of the log. The errors are printed below the table, where they are found even if only the end of this output
# is kept.
show_failure() {
  local name=$1 log=$2
  { printf -- '-- the end of %s:\n' "$log"; tail -n 20 "$log"; } | cut -c 1-300 | sed 's/^/    | /'
  steps_errors+=("$(log_errors "$log" | cut -c 1-600 | under "$name")")
}

# step <name> <command>...: runs the command with its output in a log.
step() {
  start_step "$@"
  end_steps
}

# start_step <name> <command>...: does not wait for the step's end, but waits while as many run as may. For steps that
# use few processors.
start_step() {
  local name=$1 log
  shift
  while ((${#steps_running[@]} >= steps_at_once)); do end_one_step; done
  mkdir -p "$steps_folder"
  log=$steps_folder/$(tr -cs 'A-Za-z0-9\n' - <<< "$name").log
  timeout --signal="$steps_signal" --kill-after=30 "$steps_limit" "$@" > "$log" 2>&1 < /dev/null &
  steps_running[$!]=$name
  steps_log[$!]=$log
  steps_beginning[$!]=$SECONDS
}

# start_step_in_time <name> <command>...: like start_step, but leaves the step out where it could begin only after
# `steps_latest`. The table says so, and the closing line counts it as skipped.
start_step_in_time() {
  local left_out
  while ((${#steps_running[@]} >= steps_at_once)); do end_one_step; done
  if ((SECONDS < steps_latest)); then
    start_step "$@"
  else
    steps_skipped=$((steps_skipped + 1))
    left_out=$(printf '%-32s left out: %d s were over' "$1" "$SECONDS")
    steps_table+=("$left_out")
    printf '%s\n' "$left_out"
  fi
}

# Sets `used` to the seconds of processor time of the step that has just been waited for, with all its children. It depends
# less than the time that passes on what else the machine does, but not little where two processors share a core.
#
# By the kernel's account of this shell's children, which has those that were waited for.
take_processor_time() {
  local status fields total
  status=$(< "/proc/$$/stat")
  read -r -a fields <<< "${status##*) }"
  total=$((fields[13] + fields[14]))
  used=$(((total - steps_processor_time) / steps_ticks_per_second))
  steps_processor_time=$total
}

# Waits for the steps that were started, and reports each when it ends.
end_steps() {
  while ((${#steps_running[@]} > 0)); do end_one_step; done
}

# Waits for one of the steps that were started, and reports it.
end_one_step() {
  local child status name log seconds used is_last=no
  # Printed before the step has ended, so that a log that is cut off shows where.
  if ((${#steps_running[@]} == 1)); then
    is_last=yes
    printf '%-32s ' "${steps_running[@]}"
  fi
  status=0 child=
  wait -n -p child "${!steps_running[@]}" 2> /dev/null || status=$?
  if [[ -z ${child:-} ]]; then
    # A signal ended this step while another one was reported. bash knows it only by its number.
    for child in "${!steps_running[@]}"; do kill -0 "$child" 2> /dev/null || break; done
    status=0
    wait "$child" || status=$?
  fi
  if [[ $is_last == no ]]; then printf '%-32s ' "${steps_running[$child]}"; fi
  name=${steps_running[$child]} log=${steps_log[$child]} seconds=$((SECONDS - steps_beginning[$child]))
  unset "steps_running[$child]"  # another process may get its number
  take_processor_time
  report_step "$name" "$status" "$log" "$seconds" "$used"
}

# report_step <name> <exit code> <log> <seconds> <seconds of processor time>
report_step() {
  local name=$1 status=$2 log=$3 seconds=$4 used=$5 closing passed failed
  closing=$(grep -E "$steps_closing_line" "$log" | tail -n 1) || true
  if [[ -n $closing ]]; then
    read -r passed _ failed _ <<< "$closing"
  else
    read -r passed failed <<< "$(count_tests "$log")"
    if ((passed + failed == 0)) && [[ $status == 0 && $steps_need_tests == no ]]; then passed=1; fi
  fi
  if [[ $status == 0 ]] && build_warnings "$log" > "$log.warnings"; then
    status=warnings
  fi
  if [[ $status != 0 || $((passed + failed)) == 0 ]] && ((failed == 0)); then failed=1; fi

  steps_passed=$((steps_passed + passed))
  steps_failed=$((steps_failed + failed))
  steps_table+=("$(printf '%-32s %8d %8d %8d s %8d s' "$name" "$passed" "$failed" "$seconds" "$used")")
  printf '%5d passed %5d failed %6d s\n' "$passed" "$failed" "$seconds"
  if [[ $status == 137 ]] && ((seconds < steps_limit)); then status="137, killed"; fi
  case $status in
    0) if ((failed > 0)); then show_failure "$name" "$log"; fi ;;
    124 | 137) printf '    ended after %d s: it hangs\n' "$steps_limit"; show_failure "$name" "$log" ;;
    warnings) printf '    warnings are errors here\n'; steps_errors+=("$(under "$name" < "$log.warnings")") ;;
    *) printf '    exit code %s\n' "$status"; show_failure "$name" "$log" ;;
  esac
}

# Prints the table, what failed, and the closing line; fails if anything did.
steps_summary() {
  end_steps
  printf '\n%-32s %8s %8s %10s %10s\n' "" passed failed time processor
  printf '%s\n' "${steps_table[@]}"
  if ((${#steps_errors[@]})); then printf '\n'; printf '%s\n' "${steps_errors[@]}"; fi
  printf '\n%d passed, %d failed' "$steps_passed" "$steps_failed"
  if ((steps_skipped > 0)); then printf ', %d skipped' "$steps_skipped"; fi
  printf '\n'
  ((steps_failed == 0))
}
