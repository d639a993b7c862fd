// SPDX-License-Identifier: Apache-2.0

// What AddressSanitizer and ThreadSanitizer must know about a switch of stacks.
//
// Headers that swiftc imports do not see `__has_feature(address_sanitizer)`, so nothing here is decided at compile time:
// the sanitizers' functions are weak symbols, looked up once. Without a sanitizer `coroutine_sanitizers_active` is false
// and nothing else of this file is ever called: the hot paths test one flag that lies in a cache line they need anyway.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// What the sanitizers know of one coroutine and of its resumer. All zero where no sanitizer is active.
struct coroutine_sanitizer {
  void *own_fake_stack;       // ASan: the coroutine's fake frames, while it is suspended
  void *resumer_fake_stack;   // ASan: the resumer's, while the coroutine runs
  const void *own_bottom;     // ASan: the stack on which the coroutine is suspended (a generator's, perhaps)
  size_t own_size;
  const void *resumer_bottom; // ASan: the stack of its resumer
  size_t resumer_size;
  void *own_fiber;            // TSan: the fiber that is suspended (again, a generator's, perhaps)
  void *resumer_fiber;        // TSan: the fiber of its resumer
  void *created_fiber;        // TSan: the fiber made for this stack, to be destroyed with it
};

// True in a process with AddressSanitizer or ThreadSanitizer in it.
bool coroutine_sanitizers_active(void);

// Where the frame lies whose variable `address` is: ASan puts some variables of the running stack's frames elsewhere.
const void *coroutine_sanitizer_real_address(const void *address);

// Before the first switch to a new stack.
void coroutine_sanitizer_create(struct coroutine_sanitizer *state, const void *bottom, size_t size);
// After the last switch from it, on another stack: the memory may be reused.
void coroutine_sanitizer_destroy(struct coroutine_sanitizer *state, const void *bottom, size_t size);

// Around a resume, on the resumer's side.
void coroutine_sanitizer_will_resume(struct coroutine_sanitizer *state);
void coroutine_sanitizer_did_resume(struct coroutine_sanitizer *state);

// The coroutine's side: at its very start, around a suspension, and before its last switch.
void coroutine_sanitizer_did_start(struct coroutine_sanitizer *state);
void coroutine_sanitizer_will_suspend(struct coroutine_sanitizer *state);
void coroutine_sanitizer_did_suspend(struct coroutine_sanitizer *state);
void coroutine_sanitizer_will_finish(struct coroutine_sanitizer *state);

// The last use of an object by a holder that may let go of it, and its end, perhaps on another thread: the count of
// references orders one before the other, which TSan does not see.
void coroutine_sanitizer_will_release(void *object);
void coroutine_sanitizer_did_release(void *object);

// Around code whose memory accesses TSan must not look at, on this thread: it reads what the concurrency runtime, which
// is not instrumented, orders in a way that TSan does not see. Without a sanitizer nothing happens.
void coroutine_sanitizer_begin_unseen(void);
void coroutine_sanitizer_end_unseen(void);

// Around an allocation, on this thread, that is no leak whatever a search for leaks finds. Without a sanitizer nothing happens.
void coroutine_sanitizer_begin_kept(void);
void coroutine_sanitizer_end_kept(void);
