#!/usr/bin/env bash
# An HTTP server with keep-alive and a fixed answer, by coroutines and by their peers: the server on one processor, the load
# (wrk) on another, the server's CPU time per request, interleaved rounds, the median of them.
#
#   scripts/bench-io.sh [rounds] [seconds a round]
#
# The report is printed, and kept in .build-bench/io.txt.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

rounds=${1:-5} seconds=${2:-4}
programs=$PWD/.build-bench/programs
mkdir -p "$programs"
readonly first_port=18080

if ! command -v wrk > /dev/null; then
  printf 'bench-io: wrk makes the load; install it (Debian: apt-get install wrk).\n' >&2
  exit 1
fi

server=
trap '[[ -z $server ]] || kill "$server" 2> /dev/null || true' EXIT

swift build --package-path Benchmarks/IO --scratch-path .build-bench/IO -c release > .build-bench/io-build.log 2>&1 || {
  tail -n 20 .build-bench/io-build.log >&2
  exit 1
}
swift_programs=$(swift build --package-path Benchmarks/IO --scratch-path .build-bench/IO -c release --show-bin-path)
clang -O2 -Wall -Werror Benchmarks/Peers/c/epoll_server.c -o "$programs/epoll-server"
if command -v go > /dev/null; then (cd Benchmarks/Peers/go-net && go build -o "$programs/go-net" .); fi

# The processors that this process may use: the server's, and the load's.
allowed=$(taskset -cp $$ | sed 's/.*: //')
mapfile -t processors < <(tr ',' '\n' <<< "$allowed" | awk -F- '{ for (i = $1; i <= ($2 == "" ? $1 : $2); i++) print i }')
if ((${#processors[@]} < 2)); then
  printf 'bench-io: needs two processors, one for the server and one for the load.\n' >&2
  exit 1
fi

ticks=$(getconf CLK_TCK)
declare -A samples=() latencies=()

cpu_ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }

measure() {  # measure <name> <connections> <port> <command>...
  local name=$1 connections=$2 port=$3 before after output requests
  shift 3
  taskset -c "${processors[0]}" "$@" > /dev/null 2>&1 &
  server=$!
  for _ in $(seq 100); do
    if (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null; then break; fi
    sleep 0.05
  done
  taskset -c "${processors[1]}" wrk -t1 -c"$connections" -d1s "http://127.0.0.1:$port/" > /dev/null
  before=$(cpu_ticks "$server")
  output=$(taskset -c "${processors[1]}" wrk -t1 -c"$connections" -d"${seconds}s" --latency "http://127.0.0.1:$port/")
  after=$(cpu_ticks "$server")
  kill "$server"
  wait "$server" 2> /dev/null || true
  server=
  if grep -q 'Socket errors\|Non-2xx' <<< "$output"; then
    printf 'bench-io: %s: %s\n' "$name" "$(grep 'Socket errors\|Non-2xx' <<< "$output")" >&2
  fi
  requests=$(awk '/requests in/ { print $1 }' <<< "$output")
  samples["$name $connections"]+="$(awk -v t=$((after - before)) -v hz="$ticks" -v n="$requests" 'BEGIN { printf "%.3f", t / hz / n * 1e6 }') "
  latencies["$name $connections"]+="$(awk '/ 99%/ { print $2 }' <<< "$output") "
}

median() { tr ' ' '\n' <<< "$1" | grep . | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

names=(epoll-in-C coroutines nio-handlers)
if [[ -x $programs/go-net ]]; then names+=(go-net); fi
port=$first_port
for ((round = 0; round < rounds; round++)); do
  for connections in 64 256; do
    for name in "${names[@]}"; do
      port=$((port + 1))
      case $name in
        epoll-in-C) measure "$name" "$connections" "$port" "$programs/epoll-server" "$port" ;;
        coroutines) measure "$name" "$connections" "$port" env COROUTINE_THREADS=1 "$swift_programs/coroutine-server" "$port" ;;
        nio-handlers) measure "$name" "$connections" "$port" "$swift_programs/nio-server" "$port" ;;
        go-net) measure "$name" "$connections" "$port" env GOMAXPROCS=1 "$programs/go-net" "$port" ;;
      esac
    done
  done
done

{
  printf '%-14s %12s %16s %14s   %s\n' server connections "us CPU/request" "coroutines' is" "99th percentile, by round"
  for connections in 64 256; do
    own=$(median "${samples["coroutines $connections"]}")
    for name in "${names[@]}"; do
      value=$(median "${samples["$name $connections"]}")
      printf '%-14s %12d %16s %14s   %s\n' "$name" "$connections" "$value" \
        "$(awk -v a="$own" -v b="$value" 'BEGIN { printf "%.2f of it", a / b }')" "${latencies["$name $connections"]}"
    done
  done
} | tee .build-bench/io.txt
