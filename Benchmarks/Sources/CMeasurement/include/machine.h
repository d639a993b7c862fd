// SPDX-License-Identifier: Apache-2.0

// The machine that the process runs on.
#pragma once

#include <stdbool.h>

// Whether the process was allowed to use this processor when it started.
bool machine_gives(int processor);

// Greater than the number of any processor.
int machine_processor_limit(void);

// Confines the calling thread, and every thread and process that it starts later, to these processors. Returns 0, or
// -1 with errno set.
int machine_confine(const int *processors, int count);

// The C library's version, "2.36" for example.
const char *machine_libc_version(void);
