// SPDX-License-Identifier: Apache-2.0

// What Swift can't ask of a thread: of glibc by its GNU extensions, of Dispatch, of the concurrency runtime.
#pragma once

#include <stdint.h>

// How many processors the calling thread may run on: its affinity, not the machine's size. At least 1.
int coroutine_processor_count(void);

// Whether the calling thread is one of Swift's cooperative pool, and runs a job of it. Not quick.
_Bool coroutine_is_cooperative_thread(void);

// Whether the process has no thread but the calling one. False where that is not known. Not quick.
_Bool coroutine_is_only_thread(void);

// Whether the calling thread is the one that the process began with.
_Bool coroutine_is_main_thread(void);

// The calling thread's number: not 0, and never used again in the process, unlike a `pthread_t`.
uint64_t coroutine_thread_number(void);

// The number of the task that runs here, never used again; 0: there is none.
uint64_t coroutine_task_number(void);
