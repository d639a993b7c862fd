// Two contexts that switch to each other, written in C: what the same loops in Swift are held against, and the yardstick
// for everything else.
//
// Each function makes `round_trips` times two switches and returns the word that went back and forth, which the other
// side increments: `round_trips` again, if everything that should run did. One thread at a time calls them.
//
// Each loop, in C and in Swift, is there in several layouts: a few bytes of padding at its end, 0, 4, 8 or 24. There is
// one indirect jump inside jump_fcontext, with two targets that take turns, and a processor that tells them apart by the
// branches before them may find both sides' branches alike: by where the loops happen to lie it predicts every jump or
// none, 5.5 ns or 10 for the same instructions. Each figure is that of the fastest layout.
#pragma once

#include <stdint.h>

// The layouts of a loop in C: 0 to 3.
enum { switch_loop_layouts = 4 };

// The same padding for loops in Swift: as few instructions as fill so many bytes.
#if defined(__x86_64__)
#define SWITCH_LOOP_PAD(bytes) __asm__ volatile(".nops " #bytes)
#else
#define SWITCH_LOOP_PAD(bytes) __asm__ volatile(".rept " #bytes " / 4\n\tnop\n\t.endr")
#endif
static inline __attribute__((always_inline)) void switch_loop_pad_4(void) { SWITCH_LOOP_PAD(4); }
static inline __attribute__((always_inline)) void switch_loop_pad_8(void) { SWITCH_LOOP_PAD(8); }
static inline __attribute__((always_inline)) void switch_loop_pad_24(void) { SWITCH_LOOP_PAD(24); }

// Whether jump_fcontext is here to be measured.
extern const int switch_loops_have_boost;

// By Boost.Context's jump_fcontext. Traps without it.
uintptr_t switch_loop_jump_fcontext(int layout, uintptr_t round_trips);

// By the C library's swapcontext, which saves and restores the signal mask by a system call.
uintptr_t switch_loop_swapcontext(int layout, uintptr_t round_trips);

// By the ASM backend's inline switch.
uintptr_t switch_loop_context_asm(int layout, uintptr_t round_trips);

// The file that jump_fcontext was linked from, "libboost_context.so.1.74.0" for example. NULL without it.
const char *switch_loops_boost_file(void);
