// SPDX-License-Identifier: Apache-2.0

// In which system calls threads of the process are blocked, as far as the kernel says: /proc/self/task/<thread>/syscall. No
// thread notices that it is looked at.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct coroutine_blocked_call {
  pid_t thread;
  long number;
  uint64_t arguments[6];
  uint64_t stack_pointer;
};

enum coroutine_thread_look {
  COROUTINE_THREAD_UNKNOWN,  // the kernel does not say
  COROUTINE_THREAD_ELSEWHERE,  // it is in no system call
  COROUTINE_THREAD_IN_CALL,
};

// The call that a thread is blocked in.
enum coroutine_thread_look coroutine_blocked_call_of(pid_t thread, struct coroutine_blocked_call *call);

// The call of the blocked thread whose stack pointer lies in that range. Looks at all threads, so it is not quick.
bool coroutine_blocked_call_on(uintptr_t bottom, uintptr_t top, struct coroutine_blocked_call *call);

// NULL for a call that is not known to block for long.
const char *coroutine_call_name(long number);
