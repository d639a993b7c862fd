// Where the process runs.
#pragma once

// Confines the calling thread, and every thread and process that it starts later, to so many processors: the last ones of
// those that the process was given at its start. Returns how many it has now, fewer if there are no more, or -1 with errno
// set. Not on two threads at once.
int machine_confine(int count);

// How many processors the process was given at its start.
int machine_processors(void);

// The C library's version, "2.36" for example.
const char *machine_libc_version(void);
