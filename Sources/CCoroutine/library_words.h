// SPDX-License-Identifier: Apache-2.0

// The thread-locals of a library that has no names for them outside of itself, each of whose words can be looked at.
#pragma once

#include "swift_thread_state.h"

#include <stdbool.h>
#include <stddef.h>

struct library_words {
  struct swift_thread_tls_index index;
  // 0 where the library is not loaded, or linked statically.
  size_t count;
};

// Those of the library in whose path this stands.
struct library_words coroutine_find_library_words(const char *name);

// Whether one of them, on the calling thread, is an address in [low, high).
bool coroutine_library_word_points_into(const struct library_words *words, const void *low, const void *high);
