// SPDX-License-Identifier: Apache-2.0

#include "always_running.h"

// As a block is: see `ControlBlock.address(on:)`.
_Alignas(64) uintptr_t coroutine_always_running_words[COROUTINE_ALWAYS_RUNNING_WORDS];

// With the program, or the library, before any other code of it runs, its own constructors included: the first priority that
// is not reserved.
__attribute__((constructor(101))) static void fill(void) {
  for (int word = 0; word < COROUTINE_ALWAYS_RUNNING_WORDS; word++) {
    coroutine_always_running_words[word] = (uintptr_t)coroutine_always_running_words;
  }
}
