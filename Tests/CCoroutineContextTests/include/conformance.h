// What the tests of a context backend's contract need to know of registers and frames, and Swift can't tell.
#pragma once

#include <stddef.h>
#include <stdint.h>

// How many bytes the stack is off the alignment that a call needs.
uintptr_t conformance_stack_misalignment(void);

// The direction in which a computed number is rounded: FE_UPWARD or FE_DOWNWARD; 0 for every other mode.
int conformance_rounding_mode(void);

// Puts a value made of `seed` into each register that a function must preserve, and calls `body`. Returns how many of
// these registers have another value then.
uintptr_t conformance_registers_lost(uintptr_t seed, void (*body)(void *), void *argument);

// Calls itself `depth` times, and then `body`, so that its return address is on the stack `depth` times.
void conformance_descend(int depth, void (*body)(void *), void *argument);

// A frame of a backtrace: its return address, and where it lies (its canonical frame address).
struct conformance_frame {
  uintptr_t address, place;
};

// The frames of the functions that called this one, innermost first, by call frame information. Returns how many
// there are.
size_t conformance_backtrace(struct conformance_frame *frames, size_t capacity);
