// SPDX-License-Identifier: Apache-2.0

// An ELF file, opened by libelf, and the functions in its symbol table.
#pragma once

#include "image_build.h"

#include <libelf.h>

struct elf_function {
  uint64_t address, size;
  const char *name;
};

struct elf_file {
  Elf *elf;  // NULL: could not be opened, or is nothing that we read
  struct elf_function *functions;  // sorted by address
  size_t function_count;
};

// Maps a file. It must not be written to meanwhile. No descriptor stays open.
void coroutine_elf_file_open(struct elf_file *file, const char *path);
void coroutine_elf_file_close(struct elf_file *file);

// Which build it is; unknown of one that could not be opened.
struct coroutine_image_build coroutine_elf_file_build(const struct elf_file *file);

// The name of the function at an address as the file counts; NULL if the symbol table knows none.
const char *coroutine_elf_file_function(const struct elf_file *file, uint64_t address);
