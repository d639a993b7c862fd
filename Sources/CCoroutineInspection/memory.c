// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE 1
#include "parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Each coroutine has a page of a stack at least, or some hundred bytes. It takes some thousand bytes of reads, and its
// walk, if it is unlike all others, some hundred thousand. A forged file may name the same bytes for ever.
enum { least_budget = 256 << 20, budget_per_byte = 64 };

struct target *coroutine_target_create(void) {
  struct target *target = calloc(1, sizeof *target);
  if (!target) return NULL;
  target->memory = target->page_map = -1;
  target->budget = least_budget;
  target->cache = malloc(sizeof *target->cache);
  if (!target->cache) {
    free(target);
    return NULL;
  }
  for (size_t i = 0; i < cached_pages; i++) target->cache->address[i] = 1;
  return target;
}

void coroutine_target_close(struct target *target) {
  coroutine_threads_resume(target);
  if (target->walker) coroutine_walker_destroy(target->walker);
  for (size_t i = 0; i < target->file_count; i++) close(target->files[i]);
  for (size_t i = 0; i < target->image_count; i++) {
    free((char *)target->images[i].path);
    free((char *)target->images[i].file);
  }
  if (target->memory >= 0) close(target->memory);
  if (target->page_map >= 0) close(target->page_map);
  free(target->threads);
  free(target->segments);
  free(target->files);
  free(target->images);
  free(target->code);
  free(target->cache);
  free(target);
}

void coroutine_target_resume(struct target *target) {
  coroutine_threads_resume(target);
  if (target->memory >= 0) close(target->memory);
  target->memory = -1;
}

int coroutine_target_pid(const struct target *target) { return target->pid; }

int coroutine_target_open_file(struct target *target, const char *path) {
  if (!coroutine_make_room(&target->files, &target->file_capacity, target->file_count, sizeof *target->files)) return -1;
  int file = coroutine_open_regular_file(path);
  if (file >= 0) target->files[target->file_count++] = file;
  return file;
}

bool coroutine_target_add_segment(struct target *target, uint64_t start, uint64_t size, int file, uint64_t offset) {
  uint64_t end;
  if (size == 0 || __builtin_add_overflow(start, size, &end)) return true;
  if (!coroutine_make_room(&target->segments, &target->segment_capacity, target->segment_count, sizeof *target->segments))
    return false;
  target->segments[target->segment_count++] = (struct segment){start, end, file, offset};
  return true;
}

static int by_start(const void *left, const void *right) {
  uint64_t first = ((const struct segment *)left)->start, second = ((const struct segment *)right)->start;
  return (first > second) - (first < second);
}

void coroutine_target_sort_segments(struct target *target, size_t first) {
  if (first < target->segment_count)
    qsort(target->segments + first, target->segment_count - first, sizeof(struct segment), by_start);
}

// MARK: How much is read

void coroutine_target_set_budget(struct target *target, uint64_t size) {
  if (__builtin_mul_overflow(size, (uint64_t)budget_per_byte, &target->budget)) target->budget = UINT64_MAX;
  if (target->budget < least_budget) target->budget = least_budget;
}

bool coroutine_target_is_exhausted(const struct target *target) { return target->is_exhausted; }

static bool spend(struct target *target, uint64_t bytes) {
  target->is_exhausted |= bytes > target->budget;
  target->budget -= target->is_exhausted ? target->budget : bytes;
  return !target->is_exhausted;
}

// MARK: Reading

static bool read_file(int file, uint64_t offset, uint8_t *to, size_t count) {
  while (count > 0) {
    ssize_t got = pread(file, to, count, (off_t)offset);
    if (got <= 0) return false;
    to += got;
    offset += (uint64_t)got;
    count -= (size_t)got;
  }
  return true;
}

// The segment among `count` that contains an address.
static const struct segment *find(const struct segment *segments, size_t count, uint64_t address) {
  size_t low = 0, high = count;  // the first one that begins behind the address
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (segments[middle].start <= address) low = middle + 1; else high = middle;
  }
  return low > 0 && address < segments[low - 1].end ? &segments[low - 1] : NULL;
}

static bool read_segments(struct target *target, uint64_t address, uint8_t *to, size_t count) {
  while (count > 0) {
    const struct segment *found = find(target->segments, target->own_segments, address);
    if (!found)
      found = find(target->segments + target->own_segments, target->segment_count - target->own_segments, address);
    if (!found) return false;
    size_t part = found->end - address < count ? (size_t)(found->end - address) : count;
    if (!read_file(found->file, found->offset + (address - found->start), to, part)) return false;
    address += part;
    to += part;
    count -= part;
  }
  return true;
}

static bool read_uncached(struct target *target, uint64_t address, uint8_t *to, size_t count) {
  if (target->memory >= 0) return read_file(target->memory, address, to, count);
  return read_segments(target, address, to, count);
}

bool coroutine_target_read(struct target *target, uint64_t address, void *to, size_t count) {
  uint8_t *bytes = to;
  if (!spend(target, count < sizeof(uint64_t) ? sizeof(uint64_t) : count)) return false;
  while (count > 0) {
    uint64_t page = address & ~(uint64_t)(page_size - 1);
    size_t offset = (size_t)(address - page), part = page_size - offset < count ? page_size - offset : count;
    size_t slot = (size_t)(page / page_size) % cached_pages;
    if (target->cache->address[slot] != page) {
      target->cache->address[slot] = 1;
      if (!spend(target, page_size)) return false;
      // A page of which only a part is in a file is read only as far as needed, and not kept.
      if (!read_uncached(target, page, target->cache->bytes[slot], page_size)) {
        if (!read_uncached(target, address, bytes, part)) return false;
        goto next;
      }
      target->cache->address[slot] = page;
    }
    memcpy(bytes, target->cache->bytes[slot] + offset, part);
  next:
    address += part;
    bytes += part;
    count -= part;
    if (address == 0) return count == 0;
  }
  return true;
}

// MARK: How deep a stack has been

// The first page from `address` on, below `end`, that may have been written to; `end` if there is none. Skips only
// pages that a file has no bytes for, and that a process never touched.
static uint64_t next_touched_page(struct target *target, uint64_t address, uint64_t end) {
  enum { most = 512 };
  uint64_t entries[most];
  const uint64_t present_or_swapped = (uint64_t)3 << 62;
  while (target->page_map >= 0 && address < end) {
    size_t count = (size_t)((end - address) / page_size);
    if (count > most) count = most;
    if (!spend(target, count * sizeof *entries)) return end;
    ssize_t got = pread(target->page_map, entries, count * sizeof *entries, (off_t)(address / page_size * sizeof *entries));
    if (got < (ssize_t)sizeof *entries) return address;
    for (size_t i = 0; i < (size_t)got / sizeof *entries; i++, address += page_size)
      if (entries[i] & present_or_swapped) return address;
  }
  if (!target->is_core || address >= end) return address;
  if (!spend(target, page_size)) return end;
  const struct segment *found = find(target->segments, target->own_segments, address);
  if (!found) return address + page_size;
  off_t data = lseek(found->file, (off_t)(found->offset + (address - found->start)), SEEK_DATA);
  if (data < 0) return errno == ENXIO ? end : address;
  uint64_t next = found->start + ((uint64_t)data - found->offset);
  return next <= address ? address : next < end ? next & ~(uint64_t)(page_size - 1) : end;
}

uint64_t coroutine_target_stack_peak(struct target *target, uint64_t limit, uint64_t top) {
  uint64_t words[page_size / sizeof(uint64_t)];
  for (uint64_t page = next_touched_page(target, limit, top); page < top;
       page = next_touched_page(target, page + page_size, top)) {
    if (!coroutine_target_read(target, page, words, page_size)) continue;
    for (size_t i = 0; i < page_size / sizeof *words; i++)
      if (words[i] != 0) return top - page - i * sizeof *words;
  }
  return 0;
}
