// Runs a piece of code instruction by instruction and notes the address of each: what really lies on a path, and exactly
// how much it is, on machines whose performance counters cannot be used.
//
// By the processor's trap flag: after each instruction the kernel sends SIGTRAP to the thread, whose handler takes the
// address from the interrupted context. Follows the code onto other stacks, not onto other threads. One to fifteen
// microseconds for each instruction.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Whether this architecture has a trap flag that a program may set: x86-64.
extern const bool steps_are_possible;

// From here on the calling thread's instructions are noted, the first `capacity` of them. One thread at a time; nothing
// else may use SIGTRAP meanwhile (a debugger does).
void steps_start(uintptr_t *addresses, size_t capacity);

// Until here. Returns how many there were, noted or not. Some instructions of these two functions are among them: the
// same ones each time.
size_t steps_stop(void);

// The file that an address was loaded from, with its path. NULL if it is in none: the kernel's own code.
const char *steps_file(uintptr_t address);
