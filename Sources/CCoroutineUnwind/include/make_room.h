// SPDX-License-Identifier: Apache-2.0

// Arrays that grow, for the readers in C.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

// Makes room for one more element behind `count` of them. `array` is the address of a pointer, of whatever type: it is
// read and written as bytes. Returns false, and changes nothing, without memory.
static inline bool coroutine_make_room(void *array, size_t *capacity, size_t count, size_t element_size) {
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
