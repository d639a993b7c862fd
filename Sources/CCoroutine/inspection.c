#define _GNU_SOURCE 1
#include "inspection.h"

#include <time.h>

uint32_t coroutine_inspection_flag = 0;
uint32_t coroutine_records_times = 0;
coroutine_backtracer coroutine_creation_backtracer = 0;
void (*coroutine_thread_preparation)(void) = 0;

uint64_t coroutine_coarse_time(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}
