// SPDX-License-Identifier: Apache-2.0

#include "image_build.h"

#include <string.h>

// A linker makes a handful. Each is a read of the target or of a file, and so has a price.
enum { longest_notes = 1 << 16, most_notes = 32 };

uint64_t coroutine_image_find_note(uint64_t start, uint64_t size, const char *owner, uint32_t type, image_reader read, void *context) {
  if (size > longest_notes) return 0;
  uint64_t at = 0;
  for (size_t i = 0; i < most_notes && at + sizeof(Elf64_Nhdr) <= size; i++) {
    Elf64_Nhdr note;
    char name[32] = {0};
    if (!read(context, start + at, &note, sizeof note)) return 0;
    uint64_t value = at + sizeof note + (((uint64_t)note.n_namesz + 3) & ~(uint64_t)3);
    if (note.n_type == type && note.n_namesz == strlen(owner) + 1 && note.n_namesz <= sizeof name &&
        read(context, start + at + sizeof note, name, note.n_namesz) && strcmp(name, owner) == 0 &&
        note.n_descsz >= sizeof(uint64_t))
      return start + value;
    at = value + (((uint64_t)note.n_descsz + 3) & ~(uint64_t)3);
  }
  return 0;
}

// FNV-1a.
static uint64_t hashed(uint64_t hash, uint64_t value) {
  for (int i = 0; i < 8; i++, value >>= 8) hash = (hash ^ (value & 0xff)) * 0x100000001b3;
  return hash;
}

struct coroutine_image_build coroutine_image_build(const Elf64_Phdr *headers, size_t count, bool is_file, uint64_t shift, image_reader read,
                               void *context) {
  struct coroutine_image_build build = {0};
  if (count == 0) return build;
  build.layout = 0xcbf29ce484222325;
  for (size_t i = 0; i < count; i++) {
    uint32_t type = headers[i].p_type;
    if (type == PT_LOAD || type == PT_DYNAMIC || type == PT_GNU_EH_FRAME) {
      // Not where in the file they lie: stripping changes that.
      build.layout = hashed(build.layout, type);
      build.layout = hashed(build.layout, headers[i].p_vaddr);
      build.layout = hashed(build.layout, headers[i].p_memsz);
    }
    if (type != PT_NOTE || build.id) continue;
    uint64_t notes = shift + (is_file ? headers[i].p_offset : headers[i].p_vaddr);
    uint64_t position = coroutine_image_find_note(notes, headers[i].p_filesz, "GNU", NT_GNU_BUILD_ID, read, context), id;
    if (position && read(context, position, &id, sizeof id)) build.id = id;
  }
  return build;
}
