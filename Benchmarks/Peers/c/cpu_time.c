// SPDX-License-Identifier: Apache-2.0
//
// Prints the processor time that a process has had so far, with all its threads, in nanoseconds: cpu-time <process>.
// /proc tells it in hundredths of a second.

#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int count, char **arguments) {
  clockid_t clock;
  struct timespec time;
  if (count != 2 || clock_getcpuclockid(atoi(arguments[1]), &clock) != 0 || clock_gettime(clock, &time) != 0) return 1;
  printf("%lld\n", time.tv_sec * 1000000000LL + time.tv_nsec);
}
