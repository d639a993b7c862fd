// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE 1
#include "inspection.h"

#include <time.h>

uint32_t coroutine_requests = 0;
uint32_t coroutine_measures_stacks = 0;
coroutine_backtracer coroutine_creation_backtracer = 0;
void (*coroutine_thread_preparation)(void) = 0;
int coroutine_poller_wakes[2] = {-1, -1};

static uint64_t nanoseconds(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

uint64_t coroutine_coarse_time(void) { return nanoseconds(CLOCK_MONOTONIC_COARSE); }
uint64_t coroutine_exact_time(void) { return nanoseconds(CLOCK_MONOTONIC); }
