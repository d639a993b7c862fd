// SPDX-License-Identifier: Apache-2.0

// Whether a coroutine is inside of the initialiser of a variable that is initialised at its first use.
//
// Swift's runtime runs it with a lock that belongs to the thread. A coroutine that suspends there keeps that lock, and
// code that uses the variable on the same thread meanwhile waits for ever, at full speed. The return address in an
// initialiser's frame identifies it: the runtime calls all of them in one place, which an initialiser of our own finds
// out.
#include <pthread.h>

#include "swift_runtime.h"
#include "swift_thread_state.h"

static const void *return_address;

static void note_return_address(void *context) { *(const void **)context = __builtin_return_address(0); }

static void find_return_address(void) {
  static uintptr_t token[4];  // more than any runtime needs
  swift_once(token, note_return_address, &return_address);
}

NOT_INSTRUMENTED bool coroutine_initialises_variable(const void *frame, const void *low, const void *high) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, find_return_address);
  if (frame == NULL) frame = __builtin_frame_address(0);
  // A frame: the caller's, and where the function returns to.
  while ((uintptr_t)frame >= (uintptr_t)low && (uintptr_t)frame + 2 * sizeof(uintptr_t) <= (uintptr_t)high &&
         (uintptr_t)frame % sizeof(uintptr_t) == 0) {
    const void *const *words = frame;
    if (words[1] == return_address) return true;
    if ((uintptr_t)words[0] <= (uintptr_t)frame) return false;
    frame = words[0];
  }
  return false;
}
