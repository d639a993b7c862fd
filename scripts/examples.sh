#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the examples and runs them: each has to print the text of its file in Examples/Output.
#
#   scripts/examples.sh            on ASM
#   scripts/examples.sh Boost      on another backend
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/steps.sh

# In the demo's folder, so that its build is used again.
options=(--package-path Examples --scratch-path ".build-demo-${1:-ASM}" --traits "${1:-ASM}" --configuration release)

expect_output() {  # expect_output <program> <file>
  "$1" | diff --unified "$2" - || {
    printf 'error: %s did not print what %s says\n' "$1" "$2"
    return 1
  }
  # It may crash after its last line.
  (("${PIPESTATUS[0]}" == 0)) || { printf 'error: %s did not end well\n' "$1"; return 1; }
}
export -f expect_output

# Starts a server on a free port: sets `server` and `port`.
start_server() {  # start_server <program> <its output>
  "$1" 0 > "$2" &
  server=$!
  until port=$(sed -n 's/^listening on .*://p' "$2") && [[ -n $port ]]; do
    kill -0 "$server" || return
    sleep 0.05
  done
}
export -f start_server

stop_server() {  # stop_server <its output>
  kill -TERM "$server"
  has_stopped "$1"
}

# Its last line, and its exit: both servers end by themselves after SIGTERM, with 0, and may crash after that line.
has_stopped() {  # has_stopped <its output>
  wait "$server" || { printf 'error: the server ended with %d\n' "$?"; return 1; }
  [[ $(tail -n 1 "$1") == stopped ]]
}
export -f stop_server has_stopped

# Many connections are answered while another one stays open.
echo_to_many() {  # echo_to_many <folder of the programs>
  local output
  output=$(mktemp)
  start_server "$1/echo-server" "$output"
  exec 3<> "/dev/tcp/127.0.0.1/$port"
  printf 'half a line' >&3
  expect_bytes 3 'half a line' || return
  [[ $("$1/load-client" "$port" 100 50 2> /dev/null) == "5000 answers over 100 connections" ]] || return
  exec 3>&-
  stop_server "$output"
}
expect_bytes() {  # expect_bytes <descriptor> <text without a line's end>
  local text
  IFS= read -r -t 30 -N "${#2}" -u "$1" text || true
  [[ $text == "$2" ]]
}
export -f echo_to_many expect_bytes

# Two clients talk. The server stops, and tells the one that is still there.
chat_of_two() {  # chat_of_two <folder of the programs>
  local output line
  output=$(mktemp)
  start_server "$1/chat-server" "$output"
  exec 3<> "/dev/tcp/127.0.0.1/$port" 4<> "/dev/tcp/127.0.0.1/$port"
  printf 'Ann\n' >&3
  expect_lines 3 "your name?" "Ann comes"
  printf 'Bob\n' >&4
  expect_lines 4 "your name?" "Bob comes"
  printf 'hello\n' >&3
  expect_lines 4 "Ann: hello"
  exec 4>&-
  expect_lines 3 "Bob comes" "Ann: hello" "Bob goes"
  kill -TERM "$server"
  expect_lines 3 "the server stops"
  has_stopped "$output"
}
expect_lines() {  # expect_lines <descriptor> <line>...
  local descriptor=$1 line expected
  shift
  for expected; do
    IFS= read -r -t 30 -u "$descriptor" line || true
    if [[ $line != "$expected" ]]; then
      printf 'error: expected "%s", and it sent "%s"\n' "$expected" "$line"
      exit 1
    fi
  done
}
export -f chat_of_two expect_lines

step "build" swift build "${options[@]}"
programs=$(swift build "${options[@]}" --show-bin-path)
for output in Examples/Output/*.txt; do
  name=$(basename "$output" .txt)
  step "$name" bash -c 'expect_output "$@"' bash "$programs/$name" "$output"
done
step "echo-server, load-client" bash -c 'echo_to_many "$@"' bash "$programs"
step "chat-server" bash -c 'chat_of_two "$@"' bash "$programs"
steps_summary
