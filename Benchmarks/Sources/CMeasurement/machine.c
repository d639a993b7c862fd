#define _GNU_SOURCE 1
#include "machine.h"

#include <gnu/libc-version.h>
#include <sched.h>

// What the process was given at its start: after the first confinement the kernel says only what is left of it.
static cpu_set_t given;
static int given_count;

__attribute__((constructor)) static void note_given(void) {
  if (sched_getaffinity(0, sizeof given, &given) == 0) given_count = CPU_COUNT(&given);
}

int machine_confine(int count) {
  cpu_set_t chosen;
  CPU_ZERO(&chosen);
  for (int cpu = CPU_SETSIZE - 1; cpu >= 0 && CPU_COUNT(&chosen) < count; cpu--) {
    if (CPU_ISSET(cpu, &given)) CPU_SET(cpu, &chosen);
  }
  if (sched_setaffinity(0, sizeof chosen, &chosen) != 0) return -1;
  return CPU_COUNT(&chosen);
}

int machine_processors(void) { return given_count > 0 ? given_count : 1; }

const char *machine_libc_version(void) { return gnu_get_libc_version(); }
