// SPDX-License-Identifier: Apache-2.0

// Whether a function is inside of `withObservationTracking`, of the module Observation.
//
// That notes in a thread-local where, on its stack, the list of what is read lies. A coroutine that suspends there leaves this
// behind: what others read on the thread goes into its list, also when the list is gone. The variable has no name outside of
// its library, which has few of them: each of their words is looked at. Only programs in which that library is loaded do so.
#define _GNU_SOURCE 1
#include <link.h>
#include <string.h>

#include "inspection.h"
#include "swift_runtime.h"
#include "swift_thread_state.h"

static struct swift_thread_tls_index words;
static size_t word_count;

static int note_words(struct dl_phdr_info *info, size_t size, void *context) {
  (void)size, (void)context;
  if (strstr(info->dlpi_name, "/libswiftObservation.so") == NULL) return 0;
  for (int i = 0; i < info->dlpi_phnum; i++)
    if (info->dlpi_phdr[i].p_type == PT_TLS) word_count = info->dlpi_phdr[i].p_memsz / sizeof(uintptr_t);
  words.module = info->dlpi_tls_modid;
  return 1;
}

// With the program, whose libraries are all there by now.
__attribute__((constructor)) static void find_words(void) {
  dl_iterate_phdr(note_words, NULL);
  if (word_count != 0) coroutine_request(COROUTINE_REQUEST_TRACKING, true);
}

NOT_INSTRUMENTED bool coroutine_tracks_properties(const void *low, const void *high) {
  if (word_count == 0 || __tls_get_addr == NULL) return false;
  const uintptr_t *word = __tls_get_addr(&words);
  for (size_t i = 0; i < word_count; i++)
    if (word[i] - (uintptr_t)low < (uintptr_t)high - (uintptr_t)low) return true;
  return false;
}
