#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the database clients in Examples/Clients, and runs them with servers of their own: PostgreSQL, which is
# killed in the middle and comes back, and Redis. On loopback, in a folder that is removed at the end.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/steps.sh

folder=$(mktemp -d)
readonly folder
redis=""

# A database refuses to run as root.
as_server() {
  if ((EUID == 0)); then runuser -u postgres -- "$@"; else "$@"; fi
}

# The places where Debian has them.
postgres=$(printf '%s\n' /usr/lib/postgresql/*/bin /usr/local/pgsql/bin | tac | while read -r path; do
  if [[ -x $path/pg_ctl ]]; then echo "$path"; break; fi
done)
readonly postgres
readonly data=$folder/postgres/data

start_postgres() {
  as_server "$postgres/pg_ctl" --pgdata "$data" --silent --wait --log "$folder/postgres/log" \
    --options "-c listen_addresses= -c unix_socket_directories=$folder/postgres -c fsync=off" start
}

stop_servers() {
  as_server "$postgres/pg_ctl" --pgdata "$data" --silent --mode immediate stop 2> /dev/null || true
  if [[ -n $redis ]]; then kill "$redis" 2> /dev/null || true; fi
  rm -rf "$folder"
}
trap stop_servers EXIT

expect() {  # expect <text> <command>...: checks the last line that the command prints
  local expected=$1 output
  shift
  output=$(set -o pipefail; "$@" | tail -n 1) || { printf 'error: it ended with %d\n' "$?"; return 1; }
  if [[ $output != "$expected" ]]; then
    printf 'error: expected "%s", and it printed "%s"\n' "$expected" "$output"
    return 1
  fi
}

# The server is killed, without notice to its clients, once all of them send queries.
survive_a_restart() {
  local program=$1 output=$folder/output process
  "$program" "$parameters" --while-it-restarts > "$output" &
  process=$!
  until grep -q asking "$output"; do
    if ! kill -0 "$process" 2> /dev/null; then break; fi
    sleep 0.05
  done
  as_server "$postgres/pg_ctl" --pgdata "$data" --silent --mode immediate stop
  start_postgres
  wait "$process" || { printf 'error: it ended with %d\n' "$?"; return 1; }
  expect "8 connections broke, and 8 were made again" cat "$output"
}

# Prints a port that is free at this moment.
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

options=(--package-path Examples/Clients --scratch-path .build-clients)
step "build" swift build "${options[@]}"
programs=$(swift build "${options[@]}" --show-bin-path)

mkdir "$folder/postgres"
chmod 755 "$folder"
if ((EUID == 0)); then chown postgres "$folder/postgres"; fi
as_server "$postgres/initdb" --pgdata "$data" --auth trust --username coroutine > /dev/null
start_postgres
readonly parameters="host=$folder/postgres user=coroutine dbname=postgres"
port=$(free_port)
redis-server --port "$port" --bind 127.0.0.1 --save '' --dir "$folder" > /dev/null &
redis=$!
until redis-cli -p "$port" ping > /dev/null 2>&1; do
  kill -0 "$redis" 2> /dev/null || { printf 'clients: redis-server has ended\n' >&2; exit 1; }
  sleep 0.05
done

export -f expect survive_a_restart as_server start_postgres
export folder postgres data parameters
step "PostgreSQL" bash -c 'expect "$@"' bash "20000 queries of 200 coroutines over 8 connections, 0 wrong sums" \
  "$programs/postgres-sums" "$parameters"
step "PostgreSQL, killed" bash -c 'survive_a_restart "$@"' bash "$programs/postgres-sums"
step "Redis" bash -c 'expect "$@"' bash "300 coroutines over 4 connections: 6000 visits, the last visitor is 299" \
  "$programs/redis-counters" "$port"
steps_summary
