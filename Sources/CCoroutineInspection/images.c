// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE 1
#include "parts.h"

#include <elf.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

// The executables and libraries of a target, by the ELF headers that lie in its memory.

enum { most_headers = 64, longest_list = 10000, longest_name = 4096 };

#if defined(__x86_64__)
enum { this_machine = EM_X86_64 };
#elif defined(__aarch64__)
enum { this_machine = EM_AARCH64 };
#else
#error "CCoroutineInspection does not know this architecture's number in ELF files: add it here."
#endif

bool coroutine_target_is_of_this_machine(const Elf64_Ehdr *header) {
  return header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_ident[EI_DATA] == ELFDATA2LSB &&
         header->e_machine == this_machine;
}

static bool is_header(const Elf64_Ehdr *header) {
  return memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 && coroutine_target_is_of_this_machine(header) &&
         header->e_phentsize == sizeof(Elf64_Phdr) && header->e_phnum <= most_headers;
}

// The program headers of an image. Returns how many there are; 0: that is no image.
static size_t read_headers(struct target *target, uint64_t start, Elf64_Phdr headers[most_headers]) {
  Elf64_Ehdr header;
  if (!coroutine_target_read(target, start, &header, sizeof header) || !is_header(&header)) return 0;
  if (!coroutine_target_read(target, start + header.e_phoff, headers, header.e_phnum * sizeof(Elf64_Phdr))) return 0;
  return header.e_phnum;
}

// Adds an image with these names.
static bool add_image(struct target *target, struct target_image image, const char *path, const char *file) {
  if (!coroutine_make_room(&target->images, &target->image_capacity, target->image_count, sizeof *target->images))
    return false;
  image.path = strdup(path);
  image.file = strdup(file);
  if (!image.path || !image.file) {
    free((char *)image.path);
    free((char *)image.file);
    return false;
  }
  target->images[target->image_count++] = image;
  return true;
}

bool coroutine_target_add_image(struct target *target, uint64_t start, const char *path, const char *file, enum target_file state) {
  Elf64_Phdr headers[most_headers];
  size_t count = read_headers(target, start, headers);
  if (count == 0) return false;
  uint64_t low = UINT64_MAX, high = 0, table = 0;
  for (size_t i = 0; i < count; i++) {
    if (headers[i].p_type == PT_GNU_EH_FRAME) table = headers[i].p_vaddr;
    if (headers[i].p_type != PT_LOAD) continue;
    if (headers[i].p_vaddr < low) low = headers[i].p_vaddr;
    if (headers[i].p_vaddr + headers[i].p_memsz > high) high = headers[i].p_vaddr + headers[i].p_memsz;
  }
  if (low >= high) return false;
  uint64_t bias = start - (low & ~(uint64_t)(page_size - 1));
  return add_image(target, (struct target_image){.start = start, .end = high + bias, .bias = bias, .state = state,
                                                 .unwind_table = table ? table + bias : 0},
                   path, state == target_file_right ? file : "");
}

bool coroutine_target_add_unproven_image(struct target *target, uint64_t start, uint64_t end, uint64_t bias, const char *path) {
  struct target_image image = {.start = start, .end = end, .bias = bias, .state = target_file_unproven};
  return add_image(target, image, path, "");
}

// MARK: Notes

static bool read_target(void *context, uint64_t address, void *to, size_t count) {
  return coroutine_target_read(context, address, to, count);
}

static bool read_file(void *context, uint64_t offset, void *to, size_t count) {
  return pread(*(const int *)context, to, count, (off_t)offset) == (ssize_t)count;
}

struct coroutine_image_build coroutine_target_build(struct target *target, uint64_t start) {
  Elf64_Phdr headers[most_headers];
  size_t count = read_headers(target, start, headers);
  uint64_t low = UINT64_MAX;
  for (size_t i = 0; i < count; i++)
    if (headers[i].p_type == PT_LOAD && headers[i].p_vaddr < low) low = headers[i].p_vaddr;
  return coroutine_image_build(headers, count, false, start - (low & ~(uint64_t)(page_size - 1)), read_target, target);
}

bool coroutine_target_file_build(int file, struct coroutine_image_build *build) {
  Elf64_Ehdr header;
  Elf64_Phdr headers[most_headers];
  bool is_image = read_file(&file, 0, &header, sizeof header) && is_header(&header) && header.e_phnum > 0 &&
                  read_file(&file, header.e_phoff, headers, header.e_phnum * sizeof(Elf64_Phdr));
  if (is_image) *build = coroutine_image_build(headers, header.e_phnum, true, 0, read_file, &file);
  return is_image;
}

enum target_file coroutine_target_check_file(const char *path, struct coroutine_image_build build) {
  int file = coroutine_open_regular_file(path);
  if (file < 0) return target_file_missing;
  struct coroutine_image_build own;
  bool is_image = coroutine_target_file_build(file, &own);
  close(file);
  return !is_image ? target_file_no_image : image_build_is(own, build) ? target_file_right : target_file_other_build;
}

enum target_file coroutine_target_prove_file(const struct coroutine_image_build *own, struct coroutine_image_build build) {
  if (!own) return target_file_no_image;
  if (!image_build_is(*own, build)) return target_file_other_build;
  return build.layout == own->layout && build.id == own->id ? target_file_right : target_file_unproven;
}

// The address of a part of the executable; 0: it has none of that type.
static uint64_t part_of_executable(struct target *target, uint32_t type) {
  for (size_t i = 0; i < target->image_count; i++) {
    if (!target->images[i].is_executable) continue;
    Elf64_Phdr headers[most_headers];
    size_t count = read_headers(target, target->images[i].start, headers);
    for (size_t j = 0; j < count; j++)
      if (headers[j].p_type == type) return headers[j].p_vaddr + target->images[i].bias;
  }
  return 0;
}

// Where the loader's list of libraries begins: in the executable's dynamic section it leaves a way there for debuggers.
static uint64_t loaders_list(struct target *target) {
  Elf64_Dyn entry;
  uint64_t address = part_of_executable(target, PT_DYNAMIC);
  for (size_t i = 0; address != 0 && i < longest_list; i++, address += sizeof entry) {
    if (!coroutine_target_read(target, address, &entry, sizeof entry) || entry.d_tag == DT_NULL) return 0;
    if (entry.d_tag != DT_DEBUG) continue;
    struct r_debug debug;
    return coroutine_target_read(target, entry.d_un.d_ptr, &debug, sizeof debug) ? (uint64_t)(uintptr_t)debug.r_map : 0;
  }
  return 0;
}

void coroutine_target_name_images(struct target *target) {
  uint64_t next = loaders_list(target);
  for (size_t i = 0; next != 0 && i < longest_list; i++) {
    struct link_map library;
    if (!coroutine_target_read(target, next, &library, sizeof library)) return;
    next = (uint64_t)(uintptr_t)library.l_next;
    char name[longest_name];
    size_t length = 0;
    while (length < sizeof name && coroutine_target_read(target, (uint64_t)(uintptr_t)library.l_name + length, &name[length], 1) &&
           name[length] != 0)
      length++;
    if (length == 0 || length == sizeof name || name[length] != 0) continue;
    // Its dynamic section lies in it.
    const struct target_image *image = coroutine_target_image_around(target, (uint64_t)(uintptr_t)library.l_ld);
    if (!image || image->bias != library.l_addr || image->is_executable) continue;
    char *copy = strdup(name);
    if (!copy) continue;
    free((char *)image->path);
    target->images[image - target->images].path = copy;
  }
}

static int by_start(const void *left, const void *right) {
  uint64_t first = ((const struct target_image *)left)->start, second = ((const struct target_image *)right)->start;
  return (first > second) - (first < second);
}

void coroutine_target_sort_images(struct target *target) {
  if (target->image_count > 0) qsort(target->images, target->image_count, sizeof *target->images, by_start);
}

const struct target_image *coroutine_target_image_around(const struct target *target, uint64_t address) {
  size_t low = 0, high = target->image_count;  // the first one that starts behind the address
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (target->images[middle].start <= address) low = middle + 1; else high = middle;
  }
  return low > 0 && address < target->images[low - 1].end ? &target->images[low - 1] : NULL;
}

size_t coroutine_target_image_count(const struct target *target) { return target->image_count; }
const struct target_image *coroutine_target_image_at(const struct target *target, size_t index) { return &target->images[index]; }

uint64_t coroutine_target_find_note(struct target *target, const char *owner, uint32_t type, size_t *index) {
  for (; *index < target->image_count; ++*index) {
    const struct target_image *image = &target->images[*index];
    Elf64_Phdr headers[most_headers];
    size_t count = read_headers(target, image->start, headers);
    for (size_t i = 0; i < count; i++) {
      if (headers[i].p_type != PT_NOTE) continue;
      uint64_t distance, address = coroutine_image_find_note(headers[i].p_vaddr + image->bias, headers[i].p_memsz, owner, type,
                                                 read_target, target);
      if (!address || !coroutine_target_read(target, address, &distance, sizeof distance)) continue;
      ++*index;
      return address + distance;
    }
  }
  return 0;
}
