// SPDX-License-Identifier: Apache-2.0

// Whether a function is inside of the `isolated deinit` of an actor, which the Swift runtime runs at once where the actor's last
// reference goes, if nothing else runs on the actor.
//
// The Swift runtime notes in a thread-local that the thread runs the actor's code. The note lies on the caller's stack. A
// coroutine that suspends there leaves it behind: the thread takes other code for the actor's, also when the stack is gone.
#include "library_words.h"
#include "swift_thread_state.h"

static struct library_words words;

// With the program. Later another thread may hold the loader's lock for long.
__attribute__((constructor)) static void find_words(void) {
  words = coroutine_find_library_words("/libswift_Concurrency.so");
}

bool coroutine_is_inside_isolated_deinit(const void *low, const void *high) {
  return coroutine_library_word_points_into(&words, low, high);
}
