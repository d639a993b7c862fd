// SPDX-License-Identifier: Apache-2.0

// Finds whether a file is the build of an executable or library that a process has loaded, or another one of the same name.
#pragma once

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coroutine_image_build {
  // The first 8 bytes of the number that the linker gave to the build; 0: not known. Not all linkers give one.
  uint64_t id;
  // The memory layout by its program headers; 0: not known. Other code rarely has the same sizes, and a stripped file
  // keeps them.
  uint64_t layout;
};

// Reads of a file, or of memory. False if not all of it can be read.
typedef bool (*image_reader)(void *context, uint64_t position, void *to, size_t count);

// The build with these program headers. Notes lie at their addresses, or, in a file, as far behind its start as they say;
// `shift` is to be added to either.
struct coroutine_image_build coroutine_image_build(const Elf64_Phdr *headers, size_t count, bool is_file, uint64_t shift, image_reader read,
                               void *context);

// Whether two are the same, as far as both are known.
static inline bool image_build_is(struct coroutine_image_build one, struct coroutine_image_build other) {
  if (one.id && other.id) return one.id == other.id;
  return !one.layout || !other.layout || one.layout == other.layout;
}

// Where in a part of memory with notes the value of one of at least 8 bytes lies; 0: it has none with this owner and type.
uint64_t coroutine_image_find_note(uint64_t start, uint64_t size, const char *owner, uint32_t type, image_reader read, void *context);
