// SPDX-License-Identifier: Apache-2.0

#include "current.h"

#include "speculation.h"

#if defined(__x86_64__) && defined(__linux__)
COROUTINE_THREAD_SLOT_DEFINE(coroutine_speculation_slot, 0);
#endif
COROUTINE_THREAD_SLOT_DEFINE(coroutine_current_slot, 0);

__attribute__((noinline)) const void *coroutine_frame_address(void) { return __builtin_frame_address(0); }
