#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks the links of all documents to files of this repository, and to headings in them. (Those of the catalogs to
# symbols and articles are docc's to check: scripts/docc.sh.)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mapfile -t documents < <(find * -name '.?*' -prune -o -name '*.md' -print | sort)

# First what can be linked to, `<file>#<heading as GitHub writes it>`, then the links.
headings=$(awk '
  FNR == 1 { fenced = 0; split("", seen) }
  /^ *```/ { fenced = !fenced }
  fenced || !/^#+ / { next }
  {
    text = tolower($0)
    sub(/^#+ +/, "", text)
    while (match(text, /\]\([^)]*\)/)) text = substr(text, 1, RSTART - 1) substr(text, RSTART + RLENGTH)
    gsub(/[^a-z0-9 _-]/, "", text)
    gsub(/ /, "-", text)
    print FILENAME "#" text (seen[text]++ ? "-" seen[text] - 1 : "")
  }' "${documents[@]}")

failures=0
while IFS=$'\t' read -r place target; do
  file=${place%:*}
  path=${target%%#*}
  if [[ -z $path ]]; then path=$file; else path=$(realpath --relative-to=. --canonicalize-missing "$(dirname "$file")/$path"); fi
  if [[ ! -e $path ]]; then
    printf 'error: %s: no file %s\n' "$place" "$target" >&2
  elif [[ $target == *.md#* || $target == '#'* ]] && ! grep -qxF -- "$path#${target#*#}" <<< "$headings"; then
    printf 'error: %s: no heading %s\n' "$place" "$target" >&2
  else
    continue
  fi
  failures=$((failures + 1))
done < <(awk '
  FNR == 1 { fenced = 0 }
  /^ *```/ { fenced = !fenced }
  fenced { next }
  {
    line = $0
    gsub(/`[^`]*`/, "", line)
    if (match(line, /^\[[^]]+\]: [^ ]+/)) {
      sub(/^\[[^]]+\]: /, "", line)
      line = "](" line ")"
    }
    while (match(line, /\]\([^) ]+\)/)) {
      target = substr(line, RSTART + 2, RLENGTH - 3)
      line = substr(line, RSTART + RLENGTH)
      if (target !~ /^([a-z]+:|<)/) print FILENAME ":" FNR "\t" target
    }
  }' "${documents[@]}")
((failures == 0))
printf 'The links of %d documents resolve.\n' "${#documents[@]}"
