// SPDX-License-Identifier: Apache-2.0

// Whether a function is inside of a block that Dispatch runs before the call returns: `queue.sync`, `concurrentPerform`.
//
// Dispatch notes in a thread-local where, on the caller's stack, its note of the queue lies, and reads and writes through it in
// later calls. A coroutine that suspends there leaves this behind, and takes with it the queue, which belongs to the thread.
#include "library_words.h"
#include "swift_thread_state.h"

static struct library_words words;

// With the program. Later another thread may hold the loader's lock for long.
__attribute__((constructor)) static void find_words(void) { words = coroutine_find_library_words("/libdispatch.so"); }

bool coroutine_is_inside_dispatch_block(const void *low, const void *high) {
  return coroutine_library_word_points_into(&words, low, high);
}
