#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Compares servers by coroutines with their peers: HTTP with keep-alive and a fixed answer (the load is wrk), and an
# echo of 64 bytes and of 64 KiB (the load is Peers/c/load.c). The server runs on one processor, the load on another.
# The result is the server's CPU time per request, the median of interleaved rounds. `coroutines-2` is the same server
# on both processors.
#
#   scripts/bench-io.sh [--if-possible] [rounds] [seconds a round] [server...]
#
# Where something that it needs is missing it fails. With --if-possible it says so in one line, and succeeds: `make bench` has
# it as its last part.
#
# The servers are epoll-in-C, coroutines, nio-coroutines (on SwiftNIO's event loop), nio-handlers, nio-async (its
# NIOAsyncChannel), go-net; all of them if none is named. The report is printed, and written to .build-bench/io.txt.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

failure=1
if [[ ${1:-} == --if-possible ]]; then
  failure=0
  shift
fi
rounds=${1:-5} seconds=${2:-4}
programs=$PWD/.build-bench/programs
mkdir -p "$programs"
readonly first_port=18080

# cannot <reason>: ends without a comparison.
cannot() {
  printf 'bench-io: the servers are not compared: %s.\n' "$1" >&2
  exit "$failure"
}

if ! command -v wrk > /dev/null; then cannot "there is no wrk, which makes the load (Debian: apt-get install wrk)"; fi

# The processors that this process may use: one for the server, one for the load.
allowed=$(taskset -cp $$ | sed 's/.*: //')
mapfile -t processors < <(tr ',' '\n' <<< "$allowed" | awk -F- '{ for (i = $1; i <= ($2 == "" ? $1 : $2); i++) print i }')
if ((${#processors[@]} < 2)); then cannot "two processors are needed, one for the server and one for the load"; fi

server=
trap '[[ -z $server ]] || kill "$server" 2> /dev/null || true' EXIT

printf 'Building the servers ...\n'
swift build --package-path Benchmarks/IO --scratch-path .build-bench/IO -c release > .build-bench/io-build.log 2>&1 || {
  tail -n 20 .build-bench/io-build.log >&2
  cannot "those in Swift, which need swift-nio, could not be built"
}
swift_programs=$(swift build --package-path Benchmarks/IO --scratch-path .build-bench/IO -c release --show-bin-path)
clang -O2 -Wall -Werror Benchmarks/Peers/c/epoll_server.c -o "$programs/epoll-server"
clang -O2 -Wall -Werror Benchmarks/Peers/c/load.c -o "$programs/load"
rm -f "$programs/go-net"
if command -v go > /dev/null; then
  (cd Benchmarks/Peers/go-net && go build -o "$programs/go-net" .) || true
fi
if [[ ! -x $programs/go-net ]]; then printf 'bench-io: Go is missing in what follows.\n' >&2; fi

ticks=$(getconf CLK_TCK)
declare -A samples=() latencies=()

cpu_ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }

# load_http <connections> <port> <seconds>, load_echo_64 and load_echo_65536 likewise: print the number of requests,
# and the 99th percentile of their times.
load_http() {
  local output
  output=$(taskset -c "${processors[1]}" wrk -t1 -c"$1" -d"$3s" --latency "http://127.0.0.1:$2/")
  if grep -q 'Socket errors\|Non-2xx' <<< "$output"; then printf 'bench-io: %s\n' "$output" >&2; fi
  awk '/requests in/ { requests = $1 } / 99%/ { time = $2 } END { print requests, time }' <<< "$output"
}
load_echo() { taskset -c "${processors[1]}" "$programs/load" echo "$2" "$1" "$4" "$3" | awk '{ print $3, $5 "us" }'; }
load_echo_64() { load_echo "$@" 64; }
load_echo_65536() { load_echo "$@" 65536; }

measure() {  # measure <name> <workload> <connections> <port> <processors> <command>...
  local name=$1 workload=$2 connections=$3 port=$4 on=$5 before after requests time
  shift 5
  taskset -c "$on" "$@" > /dev/null 2>&1 &
  server=$!
  for _ in $(seq 100); do
    if (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null; then break; fi
    sleep 0.05
  done
  "load_$workload" "$connections" "$port" 1 > /dev/null
  before=$(cpu_ticks "$server")
  read -r requests time < <("load_$workload" "$connections" "$port" "$seconds")
  after=$(cpu_ticks "$server")
  kill "$server"
  wait "$server" 2> /dev/null || true
  server=
  samples["$name $workload $connections"]+="$(awk -v t=$((after - before)) -v hz="$ticks" -v n="$requests" 'BEGIN { printf "%.3f", t / hz / n * 1e6 }') "
  latencies["$name $workload $connections"]+="$time "
}

median() { tr ' ' '\n' <<< "$1" | grep . | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

names=("${@:3}")
if ((${#names[@]} == 0)); then
  names=(epoll-in-C coroutines coroutines-2 nio-coroutines nio-handlers nio-async)
  if [[ -x $programs/go-net ]]; then names+=(go-net); fi
fi
workloads=("http 64" "http 256" "echo_64 64" "echo_65536 64")
port=$first_port
one=${processors[0]} both=${processors[0]},${processors[1]}
for ((round = 0; round < rounds; round++)); do
  for entry in "${workloads[@]}"; do
    read -r workload connections <<< "$entry"
    mode=()
    if [[ $workload == echo_* ]]; then mode=(echo); fi
    for name in "${names[@]}"; do
      if [[ $workload == echo_* && $name == nio-@(coroutines|async) ]]; then continue; fi  # these answer HTTP alone
      port=$((port + 1))
      case $name in
        epoll-in-C) on=$one command=("$programs/epoll-server") ;;
        coroutines) on=$one command=(env COROUTINE_THREADS=1 "$swift_programs/coroutine-server") ;;
        coroutines-2) on=$both command=(env COROUTINE_THREADS=2 "$swift_programs/coroutine-server") ;;
        nio-coroutines) on=$one command=("$swift_programs/nio-coroutine-server") ;;
        nio-handlers) on=$one command=("$swift_programs/nio-server") ;;
        nio-async) on=$one command=("$swift_programs/nio-async-server") ;;
        go-net) on=$one command=(env GOMAXPROCS=1 "$programs/go-net") ;;
      esac
      measure "$name" "$workload" "$connections" "$port" "$on" "${command[@]}" "$port" "${mode[@]}"
    done
  done
done

ratio() {  # ratio <name> <workload and connections> <value>: what that server takes of it
  local own=${samples["$1 $2"]:-}
  if [[ -z $own ]]; then return; fi
  awk -v a="$(median "$own")" -v b="$3" 'BEGIN { printf "%.2f of it", a / b }'
}

{
  printf '%-11s %-14s %5s %16s %14s %18s   %s\n' workload server conn. "us CPU/request" "coroutines' is" \
    "nio-coroutines' is" "99th percentile, by round"
  for entry in "${workloads[@]}"; do
    read -r workload connections <<< "$entry"
    for name in "${names[@]}"; do
      if [[ -z ${samples["$name $entry"]:-} ]]; then continue; fi
      value=$(median "${samples["$name $entry"]}")
      printf '%-11s %-14s %5d %16s %14s %18s   %s\n' "$workload" "$name" "$connections" "$value" \
        "$(ratio coroutines "$entry" "$value")" "$(ratio nio-coroutines "$entry" "$value")" "${latencies["$name $entry"]}"
    done
  done
} | tee .build-bench/io.txt
