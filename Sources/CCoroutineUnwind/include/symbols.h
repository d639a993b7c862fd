// SPDX-License-Identifier: Apache-2.0

// Which function, file and line an address of a process belongs to, this one or another: from the symbol tables and the debug
// information of the executable and of the libraries that are loaded.
//
// Swift's own `Runtime` module finds them, too. It runs all line programs of an executable for each address (0.8 ms a
// frame in a program of 2 MB), and misorders or misses functions that were inlined into each other, so that in
// optimised code names and lines do not belong together. Here each is read once, and the order is that of the debug
// information.
//
// libelf and libdw, of elfutils, read the files. Debug information in a file of its own, or none (a stripped
// executable), is not known: the functions say so, and go on.
#pragma once

#include "image_build.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The symbols that were read so far. One thread at a time uses it. It describes the libraries that were loaded when it
// was opened.
struct symbols;

struct symbols *coroutine_symbols_open(void);  // NULL without memory
void coroutine_symbols_close(struct symbols *symbols);

// For another process: none at first, then one image after the other. `shift`: an address less this is the address as
// the file counts. `path` is as the process knows it, `file` where it can be opened, `build` the build that the process
// has loaded: a file of another build is not read.
struct symbols *coroutine_symbols_open_empty(void);
bool coroutine_symbols_add(struct symbols *symbols, uintptr_t start, uintptr_t end, uintptr_t shift, const char *path,
                 const char *file, struct coroutine_image_build build);

// The executable or library around an address.
struct symbol_image {
  const char *path;     // NULL if there is none
  uintptr_t offset;     // the address, as the file counts
};

// Which one that is: from the list that was made at the opening, so that no file is read. False if there is none.
bool coroutine_symbols_find_image(struct symbols *symbols, uintptr_t address, struct symbol_image *image);

// One function at an address. More than one is there when each but the last was inlined into the next.
// The strings belong to the `symbols`, and are NULL where nothing is known.
struct symbol {
  const char *function;        // as the linker knows it: mangled
  const char *file;            // perhaps relative to `directory`
  const char *directory;
  uint32_t line, column;       // counted from 1; 0 if unknown
};

// So many functions can be at one address, and no more are looked for.
enum { symbols_most = 65 };

// Finds the functions that the instruction *before* a return address belongs to. Writes them, innermost first, and
// returns how many: at least 1, of which nothing may be known. Takes some microseconds. The first address in an image
// or in a compilation unit takes as many milliseconds as that has megabytes.
size_t coroutine_symbols_find(struct symbols *symbols, uintptr_t return_address, struct symbol_image *image,
                    struct symbol found[symbols_most]);
