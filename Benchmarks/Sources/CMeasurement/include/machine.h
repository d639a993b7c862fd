// Where the process runs.
#pragma once

// Confines the calling thread, and every thread that it starts later, to one processor: the last one that it may use.
// Returns the processor's number, or -1 with errno set.
int machine_pin(void);

// How many processors the calling thread may use.
int machine_processors(void);

// The C library's version, "2.36" for example.
const char *machine_libc_version(void);
