// Reading bytes that may be wrong: a cursor that never leaves its range. A read beyond the end gives 0, marks the
// cursor as broken and leaves it at the end, so that a loop over it ends, and its user needs to look at the mark only
// once.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct bytes {
  const uint8_t *at, *end;
  bool broken;
};

static inline struct bytes bytes_from(const uint8_t *start, uint64_t size, uint64_t offset) {
  if (offset > size) return (struct bytes){.at = start + size, .end = start + size, .broken = true};
  return (struct bytes){.at = start + offset, .end = start + size};
}

static inline bool bytes_left(const struct bytes *bytes) { return bytes->at < bytes->end; }

static inline const uint8_t *bytes_take(struct bytes *bytes, uint64_t count) {
  if ((uint64_t)(bytes->end - bytes->at) < count) {
    bytes->at = bytes->end;
    bytes->broken = true;
    return NULL;
  }
  const uint8_t *start = bytes->at;
  bytes->at += count;
  return start;
}

// An unsigned number of 1 to 8 bytes.
static inline uint64_t bytes_number(struct bytes *bytes, unsigned size) {
  const uint8_t *start = bytes_take(bytes, size);
  uint64_t number = 0;
  for (unsigned i = size; start && i > 0; i--) number = number << 8 | start[i - 1];
  return number;
}

static inline uint64_t bytes_leb(struct bytes *bytes, bool is_signed) {
  uint64_t number = 0;
  unsigned shift = 0;
  for (;;) {
    const uint8_t *byte = bytes_take(bytes, 1);
    if (!byte) return 0;
    if (shift < 64) number |= (uint64_t)(*byte & 0x7f) << shift;
    shift += 7;
    if (*byte & 0x80) continue;
    if (is_signed && *byte & 0x40 && shift < 64) number |= ~(uint64_t)0 << shift;
    return number;
  }
}

static inline uint64_t bytes_uleb(struct bytes *bytes) { return bytes_leb(bytes, false); }
static inline int64_t bytes_sleb(struct bytes *bytes) { return (int64_t)bytes_leb(bytes, true); }

// A string up to its zero, which must be there.
static inline const char *bytes_string(struct bytes *bytes) {
  const uint8_t *zero = bytes_left(bytes) ? memchr(bytes->at, 0, (size_t)(bytes->end - bytes->at)) : NULL;
  if (!zero) {
    bytes->at = bytes->end;
    bytes->broken = true;
    return NULL;
  }
  const char *string = (const char *)bytes->at;
  bytes->at = zero + 1;
  return string;
}

// Makes room for one more element behind `count` of them. `array` is the address of a pointer, of whatever type: it is
// read and written as bytes. Returns false, and changes nothing, without memory.
static inline bool make_room(void *array, size_t *capacity, size_t count, size_t element_size) {
  if (count < *capacity) return true;
  void *elements;
  memcpy(&elements, array, sizeof elements);
  size_t larger = *capacity ? *capacity * 2 : 16;
  elements = realloc(elements, larger * element_size);
  if (!elements) return false;
  memcpy(array, &elements, sizeof elements);
  *capacity = larger;
  return true;
}
