#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Random programs against a model, and readers of core files and of debug information against files of any bytes.
# docs/fuzzing.md says what runs.
#
#   scripts/fuzz.sh [minutes]      of each kind of input: 5
#   scripts/fuzz.sh kept           what was found before, and a few seconds of new inputs for the readers
#
# New inputs that have reached new code are kept in .build-fuzz, and the next run begins with them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/steps.sh
source scripts/build-options.sh

minutes=${1:-5}
if ! [[ $minutes =~ ^([1-9][0-9]*|kept)$ ]]; then
  printf 'fuzz: "%s" is no number of minutes\n' "$minutes" >&2
  exit 2
fi

readonly scratch=.build-fuzz
readonly source=Tests/ReaderFuzzing
readonly clang=${CLANG:-clang}  # of the Swift toolchain, which has libFuzzer

# A crash of libFuzzer's is a file with the input, whose name begins like this.
readonly findings=$scratch/found-

build_readers() {
  local flags=(-g -O1 -Wall -Werror -fno-omit-frame-pointer -fuse-ld=lld -ISources/CCoroutineInspection/include
    -ISources/CCoroutineUnwind/include -ISources/CCoroutine/include -ISources/CCoroutineSystem/include
    -DCOROUTINE_CACHED_PAGES=8 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined)
  local unwind=Sources/CCoroutineUnwind
  "$clang" "${flags[@]}" $source/core_fuzz.c Sources/CCoroutineInspection/*.c $unwind/{image_build,regular_file}.c \
    -lunwind-generic -lunwind -o $scratch/core_fuzz
  "$clang" "${flags[@]}" $source/elf_fuzz.c $unwind/{symbols,elf_file,debug_info,image_build,regular_file}.c \
    Sources/CCoroutineSystem/CCoroutineSystem.c -ldw -lelf -o $scratch/elf_fuzz
}

# What the fuzzing begins with: a forged core file, and small libraries in several forms.
make_seeds() {
  mkdir -p $scratch/{core,elf}-{seeds,corpus}
  "$clang" $source/write_core.c -o $scratch/write_core
  $scratch/write_core > $scratch/core-seeds/forged
  local optimisation version library
  for optimisation in O0 O2; do
    for version in 4 5; do
      library=$scratch/elf-seeds/$optimisation-$version
      "$clang" -$optimisation -gdwarf-$version -fuse-ld=lld -shared -nostdlib -fPIC -Wl,-z,noseparate-code -Wl,--build-id \
        $source/library.c -o "$library"
    done
  done
  strip -o $scratch/elf-seeds/stripped $scratch/elf-seeds/O2-5
  strip --strip-debug -o $scratch/elf-seeds/nodebug $scratch/elf-seeds/O2-5
}

# The kept findings, the corpus of earlier runs and the seeds, and then new inputs.
fuzz_reader() {  # fuzz_reader <title> <name> <longest input> <flag>...
  local title=$1 name=$2 length=$3 folders=($scratch/"$2"-corpus $scratch/"$2"-seeds)
  shift 3
  if [[ -d $source/findings/$name ]]; then folders+=("$source/findings/$name"); fi
  # More memory than there is is refused, as without the sanitizer.
  step "$title" env ASAN_OPTIONS=allocator_may_return_null=1:quarantine_size_mb=8 $scratch/"$name"_fuzz \
    -max_len="$length" -timeout=30 -rss_limit_mb=1500 -artifact_prefix=$findings"$name"- -print_final_stats=1 "$@" \
    "${folders[@]}"
}

mkdir -p $scratch
build_readers
make_seeds
if [[ $minutes == kept ]]; then
  fuzz_reader "core files" core 14000 -runs=4000 -seed=1
  fuzz_reader "debug information" elf 8000 -runs=20000 -seed=1
  steps_summary
  exit
fi

readonly seconds=$((60 * minutes))
steps_limit=$((seconds + 1800))
fuzz_reader "core files, $minutes min" core 14000 -max_total_time=$seconds
fuzz_reader "debug information, $minutes min" elf 8000 -max_total_time=$seconds

set_build_options ASM debug
step "core files with other words, $minutes min" env COROUTINE_FUZZ_SECONDS=$seconds swift test --disable-xctest \
  "${build_options[@]}" --filter MutatedCoreTests
set_build_options ASM release
build=(swift build --product CoroutineRandomPrograms "${build_options[@]}")
step "random programs, build" "${build[@]}"
step "random programs, $minutes min" "$("${build[@]}" --show-bin-path)/CoroutineRandomPrograms" new $seconds
steps_summary
