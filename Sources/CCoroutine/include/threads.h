// SPDX-License-Identifier: Apache-2.0

// Functions of glibc for threads that need the GNU extensions, which swiftc does not ask for.
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

// The calling thread's number, which no other thread of the process has or gets, as it may an ended one's `pthread_t`. Not 0.
uint64_t coroutine_thread_number(void);

// The number of the task that runs here, which no other task has or gets; 0: there is none.
uint64_t coroutine_task_number(void);
