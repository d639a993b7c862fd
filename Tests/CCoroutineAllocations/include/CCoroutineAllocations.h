#ifndef CCOROUTINE_ALLOCATIONS_H
#define CCOROUTINE_ALLOCATIONS_H

// How many times this process has asked for memory since it began: `malloc` and its kin, from all threads. -1 under the
// sanitizers, which have a heap of their own.
long coroutine_allocations(void);

#endif
