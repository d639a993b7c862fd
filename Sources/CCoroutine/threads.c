// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE 1
#include "threads.h"

#include "swift_runtime.h"

#include <dirent.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

int coroutine_processor_count(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  // More than 1,024 processors do not fit into the set.
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? (int)online : 1;
}

_Bool coroutine_is_main_thread(void) { return gettid() == getpid(); }

// Of libdispatch. Weak, since this module does not link it.
extern const char *dispatch_queue_get_label(void *queue) __attribute__((weak));

// Swift's runtime runs the pool's jobs on queues of its own, one for each priority, all of this name.
_Bool coroutine_is_cooperative_thread(void) {
  const char *label = dispatch_queue_get_label ? dispatch_queue_get_label(NULL) : NULL;
  return label && strcmp(label, "Swift global concurrent queue") == 0;
}

_Bool coroutine_is_only_thread(void) {
  DIR *threads = opendir("/proc/self/task");
  if (!threads) return 0;
  int count = 0;
  for (struct dirent *entry; count < 2 && (entry = readdir(threads));) count += entry->d_name[0] != '.';
  closedir(threads);
  return count == 1;
}

uint64_t coroutine_thread_number(void) {
  static uint64_t last;
  static __thread uint64_t own;
  if (own == 0) own = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
  return own;
}

uint64_t coroutine_task_number(void) {
  void *task = swift_task_getCurrent();
  return task ? swift_task_getJobTaskId(task) : 0;
}
