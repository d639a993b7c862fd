# SPDX-License-Identifier: Apache-2.0
#
# shellcheck shell=bash
# Sourced by scripts that build the package itself. SwiftPM compiles all of it again for other options: with the same ones, what
# one script has built serves the others.

# set_build_options <backend> <debug|release|thread|address>: sets the array `build_options`, of `swift build` and `swift test`.
# A build folder for each, so that one does not rebuild another. Warnings are errors. The index of the sources, which debug
# builds write, stays on: by it SwiftPM finds the tests.
set_build_options() {
  build_options=(--traits "$1" --scratch-path ".build-$1-$2" -Xswiftc -warnings-as-errors -Xcc -Wall
    -Xcc -Werror)
  case $2 in
    debug) ;;
    release) build_options+=(--configuration release -Xswiftc -enable-testing) ;;
    # gold warns about the sanitizers' own symbols, lld does not.
    thread | address) build_options+=(--sanitize "$2" -Xswiftc -use-ld=lld) ;;
    *) printf 'unknown mode "%s": debug, release, thread or address\n' "$2" >&2; exit 2 ;;
  esac
}
