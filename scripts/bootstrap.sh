#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Looks for what a command needs beside the Swift toolchain. Installs what is missing on Debian and its relatives, as
# root. Elsewhere it prints what to do and fails. Silent when nothing is missing.
#
#   scripts/bootstrap.sh demo|clients|test|dumps|trace|sanitize|bench|peers|cmake|assembly|lint|ci
set -euo pipefail

readonly minimum_swift=6.3
multiarch=$(uname -m)-linux-gnu

fail() {
  printf 'bootstrap: %s\n' "$@" >&2
  exit 1
}

# The paths are searched by hand: asking a compiler for each of them would take longer than all of them.
has_file() {  # has_file <name> <folder>...
  local name=$1 folder
  shift
  for folder; do
    if [[ -e $folder/$name ]]; then return 0; fi
  done
  return 1
}

has_header() {
  local folders
  IFS=: read -ra folders <<< "${C_INCLUDE_PATH:-}:${CPATH:-}"
  has_file "$1" "/usr/include/$multiarch" /usr/include /usr/local/include "${folders[@]}"
}

has_library() {
  local folders places
  IFS=: read -ra folders <<< "${LIBRARY_PATH:-}"
  places=("/usr/lib/$multiarch" /usr/lib64 /usr/lib "/usr/local/lib/$multiarch" /usr/local/lib64 /usr/local/lib)
  has_file "$1.so" "${places[@]}" "${folders[@]}" || has_file "$1.a" "${places[@]}" "${folders[@]}"
}

has_command() { command -v "$1" > /dev/null; }

# need <Debian package> <name elsewhere> <check>...: adds the package to the missing ones if the check fails.
need() {
  local package=$1 name=$2
  shift 2
  if ! "$@"; then
    missing_packages+=("$package")
    missing_names+=("$name")
  fi
}

has_libunwind() { has_header libunwind.h && has_library libunwind; }

need_libunwind() { need libunwind-dev "libunwind, headers and library" has_libunwind; }

has_libdw() { has_header elfutils/libdw.h && has_header libelf.h && has_library libdw && has_library libelf; }

need_libdw() { need libdw-dev "elfutils' libdw and libelf, headers and libraries" has_libdw; }

need_boost() { need libboost-context-dev "the library Boost.Context (libboost_context)" has_library libboost_context; }

# Without the peers the benchmarks still run, and name them as missing.
need_peers() {
  need golang-go "Go" has_command go
  need g++ "GCC's C++ compiler" has_command g++
  need libboost-coroutine-dev "Boost.Coroutine2, headers" has_header boost/coroutine2/all.hpp
  need libboost-fiber-dev "the library Boost.Fiber (libboost_fiber)" has_library libboost_fiber
}

need_node() { need nodejs "Node.js 18 or newer" has_command node; }

has_pip() { python3 -m pip --version > /dev/null 2>&1; }

need_pip() { need python3-pip "pip, for Python 3" has_pip; }

has_postgres() { compgen -G "/usr/lib/postgresql/*/bin/pg_ctl" > /dev/null || has_file pg_ctl /usr/local/pgsql/bin; }

need_clients() {
  need libpq-dev "PostgreSQL's client library (libpq), headers" has_file libpq-fe.h /usr/include/postgresql /usr/include
  need libhiredis-dev "hiredis, headers" has_header hiredis/hiredis.h
  need postgresql "PostgreSQL's server" has_postgres
  need redis-server "Redis" has_command redis-server
  need python3 "Python 3" has_command python3
}

need_gdb() { need gdb "gdb" has_command gdb; }

# What scripts/test-everybody.sh puts into one program.
need_everybody() {
  need libsqlite3-dev "SQLite, headers and library" has_header sqlite3.h
  need openssl "OpenSSL's command" has_command openssl
}

need_git() { need git "Git" has_command git; }

need_cmake() {
  need cmake "CMake 3.25 or newer" has_command cmake
  need ninja-build "Ninja" has_command ninja
  need gcc "GCC" has_command gcc
  need pkg-config "pkg-config" has_command pkg-config
}

has_musl() { has_file stdio.h "/usr/include/$(uname -m)-linux-musl"; }

need_musl() { need musl-dev "musl, headers in /usr/include/$(uname -m)-linux-musl" has_musl; }

# The assembly is also tested with gcc. That of aarch64 is cross-compiled and emulated, unless this machine is one.
need_assembly_tools() {
  need gcc "GCC" has_command gcc
  if [[ $multiarch == aarch64-* ]]; then return; fi
  need qemu-user "QEMU's user-mode emulation (qemu-aarch64)" has_command qemu-aarch64
  need gcc-aarch64-linux-gnu "a C cross-compiler (aarch64-linux-gnu-gcc)" has_command aarch64-linux-gnu-gcc
  need libc6-dev-arm64-cross "glibc for aarch64" has_file stdio.h /usr/aarch64-linux-gnu/include
}

check_needs() {
  local needs name
  case $1 in
    demo) needs=(libunwind libdw boost git) ;;  # Git fetches its dependencies
    clients) needs=(git clients) ;;
    bench) needs=(libunwind libdw git) ;;
    peers) needs=(boost peers) ;;
    test | sanitize) needs=(libunwind libdw boost) ;;
    dumps) needs=(libunwind libdw boost git) ;;
    trace) needs=(libunwind libdw git node pip) ;;
    cmake) needs=(libunwind libdw boost cmake) ;;
    assembly) needs=(boost assembly_tools) ;;
    lint) needs=() ;;
    ci) needs=(libunwind libdw boost git cmake assembly_tools gdb clients musl everybody) ;;  # without gdb its tests are skipped
    *) fail "unknown command '$1': demo, clients, test, dumps, trace, sanitize, bench, peers, cmake, assembly, lint or ci" ;;
  esac
  missing_packages=()
  missing_names=()
  for name in "${needs[@]}"; do "need_$name"; done
}

check_swift() {
  local version
  if ! has_command swift; then
    fail "Swift $minimum_swift or newer is needed, and there is no 'swift' in PATH." \
      "Install it as https://www.swift.org/install/linux describes."
  fi
  version=$(swift --version 2> /dev/null || true)
  if [[ ! $version =~ Swift\ version\ ([0-9]+)\.([0-9]+) ]]; then
    fail "Swift $minimum_swift or newer is needed, and 'swift --version' does not say a version." \
      "It said: ${version:-nothing}"
  fi
  if ((BASH_REMATCH[1] * 1000 + BASH_REMATCH[2] < ${minimum_swift%.*} * 1000 + ${minimum_swift#*.})); then
    fail "Swift $minimum_swift or newer is needed, $(command -v swift) is ${BASH_REMATCH[1]}.${BASH_REMATCH[2]}." \
      "Install a newer one as https://www.swift.org/install/linux describes."
  fi
}

install_packages() {
  export DEBIAN_FRONTEND=noninteractive
  printf 'bootstrap: installing %s\n' "${missing_packages[*]}"
  apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing_packages[@]}" > /dev/null
}

check_needs "${1:-}"
check_swift
if ((${#missing_packages[@]} == 0)); then exit 0; fi

if ! has_command apt-get; then
  fail "please install what is missing with this system's package manager:" "${missing_names[@]/#/  - }"
fi
if ((EUID != 0)); then
  fail "missing: ${missing_packages[*]}. Please run:" \
    "  sudo apt-get update && sudo apt-get install --no-install-recommends ${missing_packages[*]}"
fi
install_packages || fail "apt-get could not install ${missing_packages[*]}: see its message above."
check_needs "$1"
if ((${#missing_packages[@]} != 0)); then
  fail "apt-get succeeded, but these are still missing:" "${missing_names[@]/#/  - }"
fi
printf 'bootstrap: installed.\n'
