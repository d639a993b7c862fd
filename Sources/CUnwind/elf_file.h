// An ELF file, mapped: its sections, and the functions in its symbol table.
#pragma once

#include "bytes.h"
#include "image_build.h"

struct elf_section {
  const uint8_t *start;  // NULL: there is none
  uint64_t size;
};

struct elf_function {
  uint64_t address, size;
  const char *name;
};

struct elf_file {
  const uint8_t *start;  // NULL: could not be opened, or is nothing that we read
  size_t size;
  struct elf_function *functions;  // sorted by address
  size_t function_count;
};

// Maps a file. It must not be written to meanwhile.
void elf_open(struct elf_file *file, const char *path);
void elf_close(struct elf_file *file);

// Which build it is; unknown of one that could not be opened.
struct image_build elf_build(const struct elf_file *file);

// A section by its name; none for one that is compressed.
struct elf_section elf_section(const struct elf_file *file, const char *name);

// The name of the function at an address as the file counts; NULL if the symbol table knows none.
const char *elf_function_name(const struct elf_file *file, uint64_t address);
