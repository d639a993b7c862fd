// Counts allocations by standing in for the C library's allocator in the whole program, the Swift runtime included.
//
// Counting is off until asked for, so that a measurement pays one predictable branch for each allocation and nothing else.
#pragma once

#include <stdint.h>

// Starts to count at zero, on all threads. Not nested.
void allocations_start(void);

// Stops, and returns how many blocks were allocated since, on all threads; those freed meanwhile are counted too.
uint64_t allocations_stop(void);

// Gives what the allocator keeps for the next allocations back to the kernel.
void allocations_trim(void);
