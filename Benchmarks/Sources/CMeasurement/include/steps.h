// SPDX-License-Identifier: Apache-2.0

// Runs a piece of code instruction by instruction and records the address of each. So the instructions on a path are
// known exactly, even on machines whose performance counters cannot be used.
//
// It uses the processor's trap flag: after each instruction the kernel sends SIGTRAP to the thread, whose handler
// reads the address from the interrupted context. It follows the code onto other stacks, but not onto other threads.
// It takes one to fifteen microseconds per instruction.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Whether this architecture has a trap flag that a program may set: x86-64.
extern const bool steps_are_possible;

// From here on the calling thread's instructions are recorded, the first `capacity` of them. Only one thread at a
// time. Nothing else, such as a debugger, may use SIGTRAP meanwhile.
void steps_start(uintptr_t *addresses, size_t capacity);

// Ends the recording. Returns the number of instructions, recorded or not. Some instructions of these two functions
// are among them, the same ones each time.
size_t steps_stop(void);

// The file that an address was loaded from, with its path. NULL if it is in none: the kernel's own code.
const char *steps_file(uintptr_t address);
