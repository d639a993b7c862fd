// What the tests of a context backend's contract need to know of registers and frames, and Swift can't say.
#pragma once

#include <stddef.h>
#include <stdint.h>

// How far the stack is from the alignment that a call needs; 0: it has it.
uintptr_t conformance_stack_misalignment(void);

// In which direction numbers are rounded that a program computes with: FE_UPWARD or FE_DOWNWARD; 0 for all else.
int conformance_rounding_mode(void);

// Puts a value made of `seed` into each register that a function must preserve, calls `body`, and returns how many of
// them have another value then.
uintptr_t conformance_registers_lost(uintptr_t seed, void (*body)(void *), void *argument);

// Calls itself `depth` times, then `body`: its return address is on the stack that often.
void conformance_descend(int depth, void (*body)(void *), void *argument);

// A frame of a backtrace: its return address, and where it lies (its canonical frame address).
struct conformance_frame {
  uintptr_t address, place;
};

// The frames of the functions that called this one, innermost first; returns how many. By call frame information.
size_t conformance_backtrace(struct conformance_frame *frames, size_t capacity);
