// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE 1
#include "parts.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The files that a core file says were mapped. The kernel mostly leaves out the memory that came from files: this reads
// it from these files. But a core file may name any file of this system, also one with secrets. So a file is opened
// only where the core file itself holds the header of an ELF image that was mapped from it, and it is read only if it
// is that same build. What no header proves is not memory, and where code is missing, the target says so.

// One mapping of a file.
struct mapping {
  uint64_t start, end, offset;
  const char *path;
  int file;                  // that it can be read from; -1
  enum target_file state;    // of the image that it is the beginning of
};

struct mapped_files {
  char *bytes;
  struct mapping *list;  // by name, and by address among those of one name
  size_t count;
};

static int by_name_and_start(const void *left, const void *right) {
  const struct mapping *first = left, *second = right;
  int order = strcmp(first->path, second->path);
  return order ? order : (first->start > second->start) - (first->start < second->start);
}

struct mapped_files *coroutine_mapped_files_create(const uint8_t *bytes, size_t size) {
  uint64_t count = 0, page = 0, numbers[3];
  struct mapped_files *files = calloc(1, sizeof *files);
  if (!files || size < 16) return files;
  memcpy(&count, bytes, sizeof count);
  memcpy(&page, bytes + 8, sizeof page);
  if (count == 0 || count > (size - 16) / sizeof numbers) return files;
  files->bytes = malloc(size);
  files->list = calloc(count, sizeof *files->list);
  if (!files->bytes || !files->list) {
    coroutine_mapped_files_destroy(files);
    return NULL;
  }
  memcpy(files->bytes, bytes, size);
  // The names follow all numbers, each with its zero.
  const char *name = files->bytes + 16 + count * sizeof numbers, *end = files->bytes + size;
  for (uint64_t i = 0; i < count; i++) {
    const char *zero = memchr(name, 0, (size_t)(end - name));
    if (!zero) break;
    struct mapping mapping = {.path = name, .file = -1};
    memcpy(numbers, bytes + 16 + i * sizeof numbers, sizeof numbers);
    mapping.start = numbers[0];
    mapping.end = numbers[1];
    bool is_possible = mapping.start < mapping.end && !__builtin_mul_overflow(numbers[2], page, &mapping.offset) &&
                       zero - name < PATH_MAX;
    if (is_possible) files->list[files->count++] = mapping;
    name = zero + 1;
  }
  if (files->count > 0) qsort(files->list, files->count, sizeof *files->list, by_name_and_start);
  return files;
}

void coroutine_mapped_files_destroy(struct mapped_files *files) {
  if (!files) return;
  free(files->bytes);
  free(files->list);
  free(files);
}

const char *coroutine_mapped_files_at(const struct mapped_files *files, uint64_t address, uint64_t *beginning) {
  const char *path = NULL;
  for (size_t i = 0; i < files->count; i++)
    if (files->list[i].start <= address && address < files->list[i].end) path = files->list[i].path;
  for (size_t i = 0; path && i < files->count; i++) {
    if (files->list[i].offset != 0 || strcmp(files->list[i].path, path) != 0) continue;
    *beginning = files->list[i].start;
    return path;
  }
  return NULL;
}

// MARK: Which files are what was mapped

// Whether a part of memory is code.
static bool has_code(const struct target *target, uint64_t start, uint64_t end) {
  size_t low = 0, high = target->code_count;  // the first part that begins at the end or behind it
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (target->code[middle].start < end) low = middle + 1; else high = middle;
  }
  return low > 0 && target->code[low - 1].end > start;
}

// The mappings of one name: decides which can be read from the file. What follows the beginning of an image belongs to it.
static void prove_group(struct target *target, struct mapping *group, size_t count, bool is_executable, int executable) {
  int file = is_executable ? executable : -1;
  bool was_opened = is_executable, is_image = false;
  struct coroutine_image_build own = {0};  // of the file, which is read once for all its mappings
  enum target_file state = is_executable ? target_file_right : target_file_unproven;
  for (size_t i = 0; i < count; i++) {
    struct coroutine_image_build build = {0};
    if (group[i].offset == 0) build = coroutine_target_build(target, group[i].start);
    // The executable was named by the user, and compared already.
    if (build.layout && !is_executable) {
      if (!was_opened) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s", group[i].path);
        coroutine_target_trim_path(path);
        file = coroutine_target_open_file(target, path);
        is_image = file >= 0 && coroutine_target_file_build(file, &own);
        was_opened = true;
      }
      state = file < 0 ? target_file_missing : coroutine_target_prove_file(is_image ? &own : NULL, build);
    }
    group[i].state = state;
    group[i].file = state == target_file_right ? file : -1;
  }
}

// MARK: What is made of them

// Adds the images of one name.
static void add_images(struct target *target, const struct mapping *group, size_t count, bool is_executable) {
  char name[PATH_MAX], file[32] = "";
  snprintf(name, sizeof name, "%s", group->path);
  coroutine_target_trim_path(name);
  bool is_missed = false;
  size_t before = target->image_count;
  for (size_t i = 0; i < count; i++) {
    // The one that was compared, whatever has its name by now.
    if (group[i].file >= 0) snprintf(file, sizeof file, "/proc/self/fd/%d", group[i].file);
    if (group[i].offset == 0 && coroutine_target_add_image(target, group[i].start, name, file, group[i].state))
      target->images[target->image_count - 1].is_executable = is_executable;
    is_missed |= group[i].file < 0 && has_code(target, group[i].start, group[i].end);
  }
  if (target->image_count == before && is_missed)
    coroutine_target_add_unproven_image(target, group->start, group[count - 1].end, group->start - group->offset, name);
}

bool coroutine_target_add_mapped_files(struct target *target, const struct mapped_files *files, const char *executable_path,
                                       int executable) {
  // All are looked at by the core file's own bytes, before any other is read: no file vouches for another.
  for (size_t pass = 0; pass < 2; pass++) {
    for (size_t first = 0, next; first < files->count; first = next) {
      struct mapping *group = &files->list[first];
      for (next = first + 1; next < files->count && strcmp(files->list[next].path, group->path) == 0; next++) {}
      bool is_executable = executable_path && strcmp(group->path, executable_path) == 0;
      if (pass == 0) prove_group(target, group, next - first, is_executable, executable);
      else add_images(target, group, next - first, is_executable);
    }
    for (size_t i = 0; pass == 0 && i < files->count; i++) {
      const struct mapping *mapping = &files->list[i];
      if (mapping->file >= 0 &&
          !coroutine_target_add_segment(target, mapping->start, mapping->end - mapping->start, mapping->file, mapping->offset))
        return false;
    }
    if (pass == 0) coroutine_target_sort_segments(target, target->own_segments);
  }
  coroutine_target_sort_images(target);
  return true;
}
