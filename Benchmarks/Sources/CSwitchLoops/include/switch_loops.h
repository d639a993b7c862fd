// SPDX-License-Identifier: Apache-2.0

// Two contexts that switch to each other, written in C. The same loops in Swift are compared with these, and they are
// the yardstick for everything else.
//
// Each function makes `round_trips` times two switches and returns the word that went back and forth. The other side
// increments it, so the result is `round_trips` if everything ran. Only one thread at a time may call them.
//
// Each loop, in C and in Swift, exists in several layouts: with 0, 4, 8 or 24 bytes of padding at its end.
// jump_fcontext has one indirect jump, with two targets in turn. Some processors predict it by the branches before
// it, and may find both sides' branches alike. Depending on the addresses of the loops they predict every jump or
// none: 5.5 ns or 10 for the same instructions. Each figure is that of the fastest layout.
#pragma once

#include <stdint.h>

// The layouts of a loop in C: 0 to 3.
enum { switch_loop_layouts = 4 };

// The same padding for loops in Swift: as few instructions as fill that many bytes.
#if defined(__x86_64__)
#define SWITCH_LOOP_PAD(bytes) __asm__ volatile(".nops " #bytes)
#else
#define SWITCH_LOOP_PAD(bytes) __asm__ volatile(".rept " #bytes " / 4\n\tnop\n\t.endr")
#endif
static inline __attribute__((always_inline)) void switch_loop_pad_4(void) { SWITCH_LOOP_PAD(4); }
static inline __attribute__((always_inline)) void switch_loop_pad_8(void) { SWITCH_LOOP_PAD(8); }
static inline __attribute__((always_inline)) void switch_loop_pad_24(void) { SWITCH_LOOP_PAD(24); }

// Whether jump_fcontext can be measured.
extern const int switch_loops_have_boost;

// By Boost.Context's jump_fcontext. Traps without it.
uintptr_t switch_loop_jump_fcontext(int layout, uintptr_t round_trips);

// By the C library's swapcontext, which saves and restores the signal mask by a system call.
uintptr_t switch_loop_swapcontext(int layout, uintptr_t round_trips);

// By the ASM backend's inline switch.
uintptr_t switch_loop_context_asm(int layout, uintptr_t round_trips);

// The file that jump_fcontext was linked from, "libboost_context.so.1.74.0" for example. NULL without it.
const char *switch_loops_boost_file(void);
