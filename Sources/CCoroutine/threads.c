#define _GNU_SOURCE 1
#include "threads.h"

#include <sched.h>
#include <unistd.h>

int coroutine_processor_count(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  // More than 1,024 processors do not fit into the set.
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? (int)online : 1;
}

_Bool coroutine_is_main_thread(void) { return gettid() == getpid(); }
