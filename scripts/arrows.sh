#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Prints which folders of the sources refer to which, and checks that against scripts/layers.txt: each folder may
# refer only to those before it. Fails on an arrow that goes the other way, since that is how circles begin.
#
#   scripts/arrows.sh                 the check, as `make lint` runs it
#   scripts/arrows.sh --print         all arrows, each with the number of references behind it, and their names
#   scripts/arrows.sh --explain A B   the references of folder A to folder B: file, line, name
#
# It goes by names and needs no build: arrows.awk has the rules. It can't see the use of a value where no name of its
# type is written. The name is written where the value comes from.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

order=scripts/layers.txt
# The script's own test passes other sources.
sources=${ARROWS_SOURCES:-Sources}

mode=check from='' to=''
case ${1:-} in
  '') ;;
  --print) mode=print ;;
  --explain)
    mode=explain
    from=${2:?"--explain <folder> <folder>"} to=${3:?"--explain <folder> <folder>"}
    ;;
  *)
    printf 'arrows: --print, --explain <folder> <folder>, or nothing\n' >&2
    exit 2
    ;;
esac

# The backends are listed in Package.swift.
layers=$(mktemp)
trap 'rm -f "$layers"' EXIT
sed "s/Context<backend>/$(scripts/backends.sh | sed 's/^/Context/' | xargs)/" "$order" > "$layers"

mapfile -t files < <(find "$sources" -name '*.swift' -type f | sort)
# Twice: all declarations must be known before the first reference is judged.
LC_ALL=C awk -v mode="$mode" -v from="$from" -v to="$to" -v order_file="$layers" -v order_name="$order" -f scripts/arrows.awk \
  "$layers" "${files[@]}" "${files[@]}"
