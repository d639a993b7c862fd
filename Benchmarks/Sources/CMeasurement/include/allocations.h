// SPDX-License-Identifier: Apache-2.0

// Counts allocations by replacing the C library's allocator in the whole program, the Swift runtime included.
//
// Counting is off at first: a measurement without it pays one predictable branch for each allocation, and nothing
// else.
#pragma once

#include <stdint.h>

// Starts to count at zero, on all threads. Not nested.
void allocations_start(void);

// Stops, and returns how many blocks were allocated since the start, on all threads. Blocks freed meanwhile count,
// too.
uint64_t allocations_stop(void);

// Gives back to the kernel what the allocator keeps for the next allocations.
void allocations_trim(void);
