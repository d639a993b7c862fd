// Where the process runs.
#pragma once

#include <stdbool.h>

// Whether the process was given this processor at its start.
bool machine_gives(int processor);

// No processor has so high a number.
int machine_processor_limit(void);

// Confines the calling thread, and every thread and process that it starts later, to these processors. Returns 0, or -1
// with errno set.
int machine_confine(const int *processors, int count);

// The C library's version, "2.36" for example.
const char *machine_libc_version(void);
