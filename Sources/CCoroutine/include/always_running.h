// SPDX-License-Identifier: Apache-2.0

// What looks like the block of a stack whose body runs, for ever: every word of it is its own address, which each backend
// takes for the saved registers of a resumer. For a generator that has no block from which an element could come in the plain
// way: one test finds that, among others. Never resumed, never written.
//
// Here, and not a constant of Swift's: that would be made at its first use, and each use would ask whether it is.
#pragma once

#include <stdint.h>

// More than a block has on any backend.
#define COROUTINE_ALWAYS_RUNNING_WORDS 1024

extern uintptr_t coroutine_always_running_words[COROUTINE_ALWAYS_RUNNING_WORDS];

static inline __attribute__((always_inline)) void *coroutine_always_running(void) { return coroutine_always_running_words; }
