#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Compares the dumps of one program, Tests/CoroutineDumpedProgram. On each backend: those that it makes of itself, on
# request and at a signal, and those that the command coroutine-dump makes of the running program, of the core file
# that the kernel writes, and of stripped copies: one without debug information (docs/platforms.md says what is left), and
# one without symbols. Then compares the backends with each other. Dumps differ in times.
# Those of different programs differ in addresses, and in how much of a stack is in use.
#
#   scripts/test-dumps.sh [debug|release]...         how the program is built; without arguments both
#   scripts/test-dumps.sh <backend>-<mode>...        only on that backend
#
# DumpAgreementTests is the same as a test of the package, which needs neither the command nor a kernel that writes
# core files. It compares with Tests/Expected/dump.txt. To write that anew: scripts/test-dumps.sh --renew.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/steps.sh
source scripts/build-options.sh

# Each step is a call of this script, which shares the first call's folder.
if [[ -z ${DUMPS_FOLDER:-} ]]; then
  DUMPS_FOLDER=$(mktemp -d)
  export DUMPS_FOLDER
  trap 'rm -rf "$DUMPS_FOLDER"' EXIT
else
  trap 'if [[ -n $program_id ]]; then kill -KILL "$program_id" 2> /dev/null || true; fi' EXIT
fi
results=$DUMPS_FOLDER
program_id=

build() {  # build <backend> <debug|release>
  set_build_options "$1" "$2"
  swift build --product CoroutineDumpedProgram "${build_options[@]}"
}

program() { printf '%s/CoroutineDumpedProgram' "$PWD/.build-$1-$2/$2"; }

command_path() { printf '%s/coroutine-dump' "$PWD/.build-tools/debug"; }

without_times() { sed -E 's/(suspended|running|not begun) for [^,]*/\1/; s/, [^,]* left$//; s/,"(duration|timeLeft)":[0-9.e-]*//g'; }

without_process() { sed -E '1s/.*"coroutines":/"coroutines":/'; }

without_addresses() { sed -E 's/0x[0-9a-f]+/0x…/; s/[0-9.]+ of 256 KiB/… of 256 KiB/'; }

# Frames by their names alone: without debug information there are no files and lines, nor the numbers of those that
# were inlined.
names_of_frames() { sed -E '/^ *[0-9]+  0x/ { s/^ *[0-9]+  0x[0-9a-f]+ /    /; s/ (at [^ ]+:[0-9]+|in [^ ]+)$//; }'; }

# Without symbols frames have no names, so the runtime's frames can't be recognised.
without_frames() { grep -v '^ *[0-9]*  0x'; }

# Starts a program with its output in the file `said`, and a folder of its own for a core file.
start() {  # start <program> <folder>
  mkdir -p "$2/core"
  mkfifo "$2/input"
  : > "$2/said"
  (
    cd "$2/core"
    ulimit -c unlimited 2> /dev/null || true
    # Swift's crash reports would mix with the output, and let the program go on.
    SWIFT_BACKTRACE=enable=no exec "$1" < ../input > ../said
  ) &
  program_id=$!
  exec 3> "$2/input"
  await_dump "$2" 1
}

end() {  # end <signal>
  kill "-$1" "$program_id"
  wait "$program_id" 2> /dev/null || true
  program_id=
}

# Waits until so many dumps in JSON are complete.
await_dump() {  # await_dump <folder> <count>
  until [[ $(grep -c '^],"count":' "$1/said") -ge $2 ]]; do
    kill -0 "$program_id" || { printf 'error: the program has ended\n'; return 1; }
    sleep 0.05
  done
}

# Splits a program's output into the texts and the JSON: `own.text`, `own.json`, `signal.text`, `signal.json`.
divide() {  # divide <folder>
  awk -v folder="$1" '
    BEGIN { name = "own" }
    /^{"format":/ { is_json = 1 }
    { print > (folder "/" name (is_json ? ".json" : ".text")) }
    is_json && /^],"count":/ { is_json = 0; name = "signal" }' "$1/said"
}

same() {  # same <file> <file>: but for the times, and the JSON of two processes
  diff <(without_times < "$1" | without_process) <(without_times < "$2" | without_process) > "$results/difference" ||
    { printf 'error: %s and %s differ:\n' "${1##*/}" "${2##*/}"; head -n 20 "$results/difference"; return 1; }
}

# Whether processes may be inspected here: kernel.yama.ptrace_scope, and containers, may forbid it.
may_look() {  # may_look <process>
  local problem
  problem=$("$(command_path)" "$1" 2>&1 > /dev/null) || true
  if [[ $problem != *"no permission to look"* ]]; then return 0; fi
  printf 'not looked at from outside: %s\n' "$problem"
  return 1
}

# Whether the kernel has written a core file. On other systems it passes them to a program.
has_core() {  # has_core <folder>
  local core=("$1"/core/*)
  if [[ -e ${core[0]} ]]; then return 0; fi
  printf 'no core file: /proc/sys/kernel/core_pattern is %s\n' "$(< /proc/sys/kernel/core_pattern)"
  return 1
}

check_backend() {  # check_backend <backend> <debug|release>
  local folder=$results/$1-$2 program dump said kind
  program=$(program "$1" "$2")
  dump=$(command_path)
  start "$program" "$folder"
  said=$(stat -c %s "$folder/said")
  kill -QUIT "$program_id"
  # Two pending signals may be delivered in any order, so the second one follows when the first dump has begun.
  until [[ $(stat -c %s "$folder/said") -gt $said ]]; do sleep 0.05; done
  kill -USR1 "$program_id"
  await_dump "$folder" 2
  divide "$folder"
  local kinds=(signal)
  if may_look "$program_id"; then
    "$dump" --tree "$program_id" > "$folder/live.text"
    "$dump" --json "$program_id" > "$folder/live.json"
    kinds+=(live)
  fi
  end SYS
  if has_core "$folder"; then
    local core=("$folder"/core/*)
    "$dump" --tree "${core[0]}" "$program" > "$folder/core.text"
    "$dump" --json "${core[0]}" "$program" > "$folder/core.json"
    kinds+=(core)
  fi
  for kind in "${kinds[@]}"; do
    same "$folder/own.text" "$folder/$kind.text"
    same "$folder/own.json" "$folder/$kind.json"
  done

  check_without_debug_information "$program" "$folder" "$2"
  check_without_symbols "$program" "$folder"
}

# The same frames in debug. In release those that were inlined are missing, and nothing else is.
check_without_debug_information() {  # check_without_debug_information <program> <its folder> <debug|release>
  local copy=$results/without-debug folder=$2/without-debug kind kinds=() missing='^<     '
  if [[ $3 == debug ]]; then missing='none'; fi
  strip --strip-debug -o "$copy" "$1"
  start "$copy" "$folder"
  if may_look "$program_id"; then
    "$(command_path)" --tree "$program_id" > "$folder/live.text"
    kinds+=(live)
  fi
  end SYS
  if has_core "$folder"; then
    local core=("$folder"/core/*)
    "$(command_path)" --tree "${core[0]}" "$copy" > "$folder/core.text"
    kinds+=(core)
  fi
  for kind in "${kinds[@]}"; do
    if grep '^ *[0-9]*  0x.*\(???\| at [^ ]*:[0-9]*$\)' "$folder/$kind.text"; then return 1; fi
    diff <(names_of_frames < "$2/own.text" | without_times | without_addresses) \
      <(names_of_frames < "$folder/$kind.text" | without_times | without_addresses) > "$folder/difference" || true
    if grep '^[<>]' "$folder/difference" | grep -v "$missing"; then return 1; fi
  done
}

check_without_symbols() {  # check_without_symbols <program> <its folder>
  local copy=$results/stripped folder=$2/stripped
  strip -o "$copy" "$1"
  start "$copy" "$folder"
  if ! may_look "$program_id"; then
    end KILL
    return
  fi
  "$(command_path)" --tree "$program_id" > "$folder.text"
  end KILL
  grep -q '^    0  0x[0-9a-f]* ??? in stripped+0x' "$folder.text"
  diff <(without_frames < "$2/own.text" | without_times | without_addresses) \
    <(without_frames < "$folder.text" | without_times | without_addresses)
}

check_backends() {  # check_backends <debug|release>
  local backend
  for backend in $(scripts/backends.sh | grep -vx ASM); do
    diff <(without_times < "$results/ASM-$1/own.text" | without_addresses) \
      <(without_times < "$results/$backend-$1/own.text" | without_addresses)
  done
}

check_messages() {
  local dump sleeper
  dump=$(command_path)
  expect() {  # expect <message> <argument>...
    local expected=$1 output
    shift
    if output=$("$dump" "$@" 2>&1 > /dev/null) || [[ $output != *"$expected"* ]]; then
      printf 'error: coroutine-dump %s: expected "%s", not "%s"\n' "$*" "$expected" "$output"
      return 1
    fi
  }
  sleep 1000 &
  sleeper=$!
  if may_look "$sleeper"; then expect "there is no coroutine runtime in" "$sleeper"; fi
  kill "$sleeper"
  expect "there is no process 99999999" 99999999
  expect "is no core file" /bin/sh /bin/sh
  expect "No such file" /nowhere /bin/sh
  expect "is not the number of a process" server
  expect "--frames must be at least 1" --frames 0 1
  expect "--tree is text" --tree --json 1
  expect "/ is no core file" / /bin/sh
}

renew() {
  build ASM debug
  start "$(program ASM debug)" "$results/renew"
  divide "$results/renew"
  without_times < "$results/renew/own.text" | without_addresses > Tests/Expected/dump.txt
}

case ${1:-} in
  build | renew | check_*)
    "$@"
    exit
    ;;
  --renew)
    scripts/test-dumps.sh renew
    exit
    ;;
esac

part() { step "$1" scripts/test-dumps.sh "${@:2}"; }

step "coroutine-dump" swift build --package-path Tools --scratch-path .build-tools --product coroutine-dump
part "messages" check_messages
if (($# == 0)); then set -- debug release; fi
check_parts() {  # check_parts <backend> <debug|release>
  part "$1, $2, build" build "$1" "$2"
  part "$1, $2" check_backend "$1" "$2"
}

for run; do
  if [[ $run == *-* ]]; then
    check_parts "${run%-*}" "${run##*-}"
    continue
  fi
  for backend in $(scripts/backends.sh); do check_parts "$backend" "$run"; done
  part "backends, $run" check_backends "$run"
done
steps_summary
