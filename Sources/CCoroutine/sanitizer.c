// SPDX-License-Identifier: Apache-2.0

#include "sanitizer.h"

// The sanitizers' public interfaces (sanitizer/common_interface_defs.h, asan_interface.h, tsan_interface.h), declared by
// hand and weak: their headers come with the compiler, the functions only with a sanitizer.
#define WEAK __attribute__((weak))
extern void __sanitizer_start_switch_fiber(void **fake_stack_save, const void *bottom, size_t size) WEAK;
extern void __sanitizer_finish_switch_fiber(void *fake_stack_save, const void **bottom, size_t *size) WEAK;
extern void __asan_unpoison_memory_region(void const volatile *address, size_t size) WEAK;
extern void *__asan_get_current_fake_stack(void) WEAK;
extern void *__asan_addr_is_in_fake_stack(void *fake_stack, void *address, void **start, void **end) WEAK;
extern void __lsan_register_root_region(const void *bottom, size_t size) WEAK;
extern void __lsan_unregister_root_region(const void *bottom, size_t size) WEAK;
extern void __lsan_disable(void) WEAK;
extern void __lsan_enable(void) WEAK;
extern void *__tsan_get_current_fiber(void) WEAK;
extern void *__tsan_create_fiber(unsigned flags) WEAK;
extern void __tsan_destroy_fiber(void *fiber) WEAK;
extern void __tsan_switch_to_fiber(void *fiber, unsigned flags) WEAK;
extern void __tsan_acquire(void *address) WEAK;
extern void __tsan_release(void *address) WEAK;
extern void __tsan_ignore_thread_begin(void) WEAK;
extern void __tsan_ignore_thread_end(void) WEAK;

// No function here may itself be instrumented: TSan would record its entry on one fiber and its exit on another.
#define PLAIN __attribute__((disable_sanitizer_instrumentation, noinline))

// A switch orders what came before it with what comes after it on the other fiber: one thread does both.
enum { tsan_switch_synchronizes = 0 };

// What the frames of a suspended coroutine own is no leak, but a search for leaks looks at the stacks of threads only,
// so it gets the other stacks from here. It gets their upper ends alone, since it reads every page, whether the stack
// has come that far or not.
static inline size_t leak_root_size(size_t size) {
  enum { most = 64 << 10 };
  return size < most ? size : most;
}

static inline const void *leak_root(const void *bottom, size_t size) {
  return (const char *)bottom + size - leak_root_size(size);
}

PLAIN bool coroutine_sanitizers_active(void) {
  return __sanitizer_start_switch_fiber != 0 || __tsan_switch_to_fiber != 0;
}

PLAIN const void *coroutine_sanitizer_real_address(const void *address) {
  if (!__asan_get_current_fake_stack || !__asan_addr_is_in_fake_stack) return address;
  void *fake_stack = __asan_get_current_fake_stack();
  void *real = fake_stack ? __asan_addr_is_in_fake_stack(fake_stack, (void *)address, 0, 0) : 0;
  return real ? real : address;
}

PLAIN void coroutine_sanitizer_create(struct coroutine_sanitizer *state, const void *bottom, size_t size) {
  *state = (struct coroutine_sanitizer){.own_bottom = bottom, .own_size = size};
  if (__lsan_register_root_region) __lsan_register_root_region(leak_root(bottom, size), leak_root_size(size));
  if (__tsan_create_fiber) state->own_fiber = state->created_fiber = __tsan_create_fiber(0);
}

PLAIN void coroutine_sanitizer_destroy(struct coroutine_sanitizer *state, const void *bottom, size_t size) {
  if (__tsan_destroy_fiber && state->created_fiber) __tsan_destroy_fiber(state->created_fiber);
  if (__lsan_unregister_root_region) __lsan_unregister_root_region(leak_root(bottom, size), leak_root_size(size));
  // Frames that were left for good (the last switch never returned) have their redzones poisoned still.
  if (__asan_unpoison_memory_region) __asan_unpoison_memory_region(bottom, size);
}

PLAIN void coroutine_sanitizer_will_resume(struct coroutine_sanitizer *state) {
  if (__sanitizer_start_switch_fiber)
    __sanitizer_start_switch_fiber(&state->resumer_fake_stack, state->own_bottom, state->own_size);
  if (__tsan_switch_to_fiber) {
    state->resumer_fiber = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(state->own_fiber, tsan_switch_synchronizes);
  }
}

PLAIN void coroutine_sanitizer_did_resume(struct coroutine_sanitizer *state) {
  // Reports the stack that was left: where the coroutine is suspended now, its own or a generator's that it runs.
  if (__sanitizer_finish_switch_fiber)
    __sanitizer_finish_switch_fiber(state->resumer_fake_stack, &state->own_bottom, &state->own_size);
}

PLAIN void coroutine_sanitizer_did_start(struct coroutine_sanitizer *state) {
  if (__sanitizer_finish_switch_fiber)
    __sanitizer_finish_switch_fiber(0, &state->resumer_bottom, &state->resumer_size);
}

PLAIN void coroutine_sanitizer_will_suspend(struct coroutine_sanitizer *state) {
  if (__sanitizer_start_switch_fiber)
    __sanitizer_start_switch_fiber(&state->own_fake_stack, state->resumer_bottom, state->resumer_size);
  if (__tsan_switch_to_fiber) {
    state->own_fiber = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(state->resumer_fiber, tsan_switch_synchronizes);
  }
}

PLAIN void coroutine_sanitizer_did_suspend(struct coroutine_sanitizer *state) {
  if (__sanitizer_finish_switch_fiber)
    __sanitizer_finish_switch_fiber(state->own_fake_stack, &state->resumer_bottom, &state->resumer_size);
}

PLAIN void coroutine_sanitizer_will_finish(struct coroutine_sanitizer *state) {
  // No place to save the fake frames: ASan frees them.
  if (__sanitizer_start_switch_fiber) __sanitizer_start_switch_fiber(0, state->resumer_bottom, state->resumer_size);
  if (__tsan_switch_to_fiber) __tsan_switch_to_fiber(state->resumer_fiber, tsan_switch_synchronizes);
}

PLAIN void coroutine_sanitizer_will_release(void *object) {
  if (__tsan_release) __tsan_release(object);
}

PLAIN void coroutine_sanitizer_did_release(void *object) {
  if (__tsan_acquire) __tsan_acquire(object);
}

PLAIN void coroutine_sanitizer_begin_unseen(void) {
  if (__tsan_ignore_thread_begin) __tsan_ignore_thread_begin();
}

PLAIN void coroutine_sanitizer_end_unseen(void) {
  if (__tsan_ignore_thread_end) __tsan_ignore_thread_end();
}

PLAIN void coroutine_sanitizer_begin_kept(void) {
  if (__lsan_disable) __lsan_disable();
}

PLAIN void coroutine_sanitizer_end_kept(void) {
  if (__lsan_enable) __lsan_enable();
}
