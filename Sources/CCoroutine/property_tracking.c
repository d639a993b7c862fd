// SPDX-License-Identifier: Apache-2.0

// Whether a function is inside of `withObservationTracking`, of the module Observation.
//
// It notes in a thread-local where, on its stack, the list of what is read lies. A coroutine that suspends inside leaves the
// note behind: what others read on the thread goes into that list, even when it is gone. The library has few thread-locals, so
// each of their words is looked at. Only programs in which it is loaded do so.
#include "inspection.h"
#include "library_words.h"
#include "swift_thread_state.h"

static struct library_words words;

// With the program, whose libraries are all there by now.
__attribute__((constructor)) static void find_words(void) {
  words = coroutine_find_library_words("/libswiftObservation.so");
  if (words.count != 0) coroutine_request(COROUTINE_REQUEST_TRACKING, true);
}

bool coroutine_tracks_properties(const void *low, const void *high) {
  return coroutine_library_word_points_into(&words, low, high);
}
