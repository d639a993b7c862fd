// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE 1
#include "machine.h"

#include <gnu/libc-version.h>
#include <sched.h>

// The processors at the start: after the first confinement the kernel reports only those that are left.
static cpu_set_t given;

__attribute__((constructor)) static void note_given(void) { (void)sched_getaffinity(0, sizeof given, &given); }

bool machine_gives(int processor) { return processor >= 0 && processor < CPU_SETSIZE && CPU_ISSET(processor, &given); }

int machine_processor_limit(void) { return CPU_SETSIZE; }

int machine_confine(const int *processors, int count) {
  cpu_set_t chosen;
  CPU_ZERO(&chosen);
  for (int i = 0; i < count; i++) CPU_SET(processors[i], &chosen);
  return sched_setaffinity(0, sizeof chosen, &chosen);
}

const char *machine_libc_version(void) { return gnu_get_libc_version(); }
