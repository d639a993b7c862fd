#define _GNU_SOURCE 1
#include "threads.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

int coroutine_processor_count(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  // More than 1,024 processors do not fit into the set.
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? (int)online : 1;
}

void coroutine_name_thread(const char *name) { (void)pthread_setname_np(pthread_self(), name); }

_Bool coroutine_is_main_thread(void) { return gettid() == getpid(); }
