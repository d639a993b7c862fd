#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Compares servers by coroutines with their peers: HTTP with keep-alive and a fixed answer, without a codec and, on SwiftNIO,
# with its own; and an echo of 64 bytes and of 64 KiB. The load is Peers/c/turns.c. The server runs on one processor, the load on
# another.
# All servers of a workload run at the same time, and get the load in turn, each for some milliseconds, again and again: so what
# the machine does meanwhile meets them alike. The result is the server's CPU time per request, the median of the turns; ratios
# are the medians of those within a round. `coroutines-2` is the same server on both processors.
#
#   scripts/bench-io.sh [--if-possible] [rounds] [milliseconds of a turn] [server...]
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
rounds=${1:-200} milliseconds=${2:-60}
programs=$PWD/.build-bench/programs
mkdir -p "$programs"
readonly first_port=18080

# With all servers at once, the load has some two thousand connections.
ulimit -n "$(ulimit -Hn)"

# cannot <reason>: ends without a comparison.
cannot() {
  printf 'bench-io: the servers are not compared: %s.\n' "$1" >&2
  exit "$failure"
}

# The processors that this process may use: one for the server, one for the load.
allowed=$(taskset -cp $$ | sed 's/.*: //')
mapfile -t processors < <(tr ',' '\n' <<< "$allowed" | awk -F- '{ for (i = $1; i <= ($2 == "" ? $1 : $2); i++) print i }')
if ((${#processors[@]} < 2)); then cannot "two processors are needed, one for the server and one for the load"; fi

declare -A servers=() ports=()
stop_servers() {
  if ((${#servers[@]} == 0)); then return; fi
  kill "${servers[@]}" 2> /dev/null || true
  wait "${servers[@]}" 2> /dev/null || true
  servers=()
}
trap stop_servers EXIT

printf 'Building the servers ...\n'
swift build --package-path Benchmarks/IO --scratch-path .build-bench/IO -c release > .build-bench/io-build.log 2>&1 || {
  tail -n 20 .build-bench/io-build.log >&2
  cannot "those in Swift, which need swift-nio, could not be built"
}
swift_programs=$(swift build --package-path Benchmarks/IO --scratch-path .build-bench/IO -c release --show-bin-path)
clang -O2 -Wall -Werror Benchmarks/Peers/c/epoll_server.c -o "$programs/epoll-server"
clang -O2 -Wall -Werror Benchmarks/Peers/c/turns.c -o "$programs/turns"
rm -f "$programs/go-net"
if command -v go > /dev/null; then
  (cd Benchmarks/Peers/go-net && go build -o "$programs/go-net" .) || true
fi
if [[ ! -x $programs/go-net ]]; then printf 'bench-io: Go is missing in what follows.\n' >&2; fi

declare -A samples=() latencies=()
is_whole=yes

start_server() {  # start_server <name> <port> <processors> <command>...
  taskset -c "$3" "${@:4}" > /dev/null 2>&1 &
  servers[$1]=$!
  ports[$1]=$2
  for _ in $(seq 100); do
    if (: < "/dev/tcp/127.0.0.1/$2") 2> /dev/null; then break; fi
    sleep 0.05
  done
}

# measure <workload> <connections> <server>...: loads them in turn.
measure() {
  local request=http targets=() name
  case $1 in echo_*) request=${1#echo_} ;; esac
  for name in "${@:3}"; do targets+=("${servers[$name]}:${ports[$name]}"); done
  if ! taskset -c "${processors[1]}" "$programs/turns" "$request" "$2" "$rounds" "$milliseconds" "${targets[@]}" \
    > "$programs/turns.txt"; then
    printf 'bench-io: %s with %d connections is not measured.\n' "$1" "$2" >&2
    is_whole=no
    return
  fi
  for name in "${@:3}"; do
    read -r "latencies[$name $1 $2]" "samples[$name $1 $2]"
  done < "$programs/turns.txt"
}

median() { tr ' ' '\n' <<< "$1" | grep . | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

names=("${@:3}")
if ((${#names[@]} == 0)); then
  names=(epoll-in-C coroutines coroutines-2 nio-coroutines nio-handlers nio-async)
  if [[ -x $programs/go-net ]]; then names+=(go-net); fi
fi
workloads=("http 64" "http 256" "http_codec 64" "http_codec 256" "echo_64 64" "echo_65536 64")
port=$first_port
one=${processors[0]} both=${processors[0]},${processors[1]}
for entry in "${workloads[@]}"; do
  read -r workload connections <<< "$entry"
  mode=() started=()
  case $workload in
    echo_*) mode=(echo) ;;
    http_codec) mode=(codec) ;;
  esac
  for name in "${names[@]}"; do
    # Those answer HTTP alone, and only these have a codec.
    if [[ $workload == echo_* && $name == nio-@(coroutines|async) ]]; then continue; fi
    if [[ $workload == http_codec && $name != nio-* ]]; then continue; fi
    port=$((port + 1))
    case $name in
      epoll-in-C) on=$one command=("$programs/epoll-server") ;;
      coroutines) on=$one command=(env COROUTINE_THREADS=1 "$swift_programs/coroutine-server") ;;
      coroutines-2) on=$both command=(env COROUTINE_THREADS=2 "$swift_programs/coroutine-server") ;;
      nio-coroutines) on=$one command=("$swift_programs/nio-coroutine-server") ;;
      nio-handlers) on=$one command=("$swift_programs/nio-server") ;;
      nio-async) on=$one command=("$swift_programs/nio-async-server") ;;
      go-net) on=$one command=(env GOMAXPROCS=1 "$programs/go-net") ;;
      *) cannot "there is no server \"$name\"" ;;
    esac
    start_server "$name" "$port" "$on" "${command[@]}" "$port" "${mode[@]}"
    started+=("$name")
  done
  if ((${#started[@]} > 0)); then measure "$workload" "$connections" "${started[@]}"; fi
  stop_servers
done

ratio() {  # ratio <name> <name of the other> <workload and connections>: what the one takes of the other's time
  local own=${samples["$1 $3"]:-} other=${samples["$2 $3"]}
  if [[ -z $own ]]; then return; fi
  printf '%s of it' "$(median "$(awk -v own="$own" -v other="$other" 'BEGIN {
    count = split(own, a, " ")
    split(other, b, " ")
    for (i = 1; i <= count; i++) printf "%.3f ", a[i] / b[i]
  }')")"
}

{
  printf '%-11s %-14s %5s %16s %14s %18s %16s\n' workload server conn. "us CPU/request" "coroutines' is" \
    "nio-coroutines' is" "99th pct. in us"
  for entry in "${workloads[@]}"; do
    read -r workload connections <<< "$entry"
    for name in "${names[@]}"; do
      if [[ -z ${samples["$name $entry"]:-} ]]; then continue; fi
      printf '%-11s %-14s %5d %16s %14s %18s %16s\n' "$workload" "$name" "$connections" \
        "$(median "${samples["$name $entry"]}")" "$(ratio coroutines "$name" "$entry")" \
        "$(ratio nio-coroutines "$name" "$entry")" "${latencies["$name $entry"]}"
    done
  done
} | tee .build-bench/io.txt

[[ $is_whole == yes ]] || exit "$failure"
