// SPDX-License-Identifier: Apache-2.0

// What the files of this folder use of the Swift runtime: entry points that compiled Swift code calls, and the layout of two
// kinds of list, which swift_thread_state_probe.c verifies before anything relies on it.
#pragma once

#include "swift_thread_state.h"

#include <stddef.h>
#include <stdint.h>

// gcc has no word for it, and needs none here: with a few words as arguments and one as the result, with neither a context
// nor an error, the convention is C's own on x86-64 and aarch64.
#if defined(__clang__)
#define SWIFT_CC __attribute__((swiftcall))
#else
#define SWIFT_CC
#endif

// For functions that use memory whose owner no sanitizer knows, and for those that may change a sanitizer's own thread-locals:
// these must not call into it.
#if defined(__has_attribute) && __has_attribute(disable_sanitizer_instrumentation)
#define NOT_INSTRUMENTED __attribute__((disable_sanitizer_instrumentation, noinline))
#else
#define NOT_INSTRUMENTED __attribute__((noinline))
#endif

// Whether a word is known, by its offset or by its index.
#define COROUTINE_KNOWS_WORD(at, word) ((at)->word != 0 || (at)->word##_index.module != 0)

// Of the C library. Makes the calling thread's block where there is none. In a program that is linked statically it is NULL:
// that has one block, which lies at the same distance from each thread's pointer.
extern void *__tls_get_addr(const struct swift_thread_tls_index *index) __attribute__((weak));

static inline uintptr_t coroutine_word_address(const struct swift_thread_tls_index *index) {
  if (__tls_get_addr == NULL) return (uintptr_t)__builtin_thread_pointer() + index->offset;
  return (uintptr_t)__tls_get_addr(index);
}

// Runs `body` if no thread has; `token` was zero before. For the variables that are initialised at their first use.
extern void swift_once(void *token, void (*body)(void *context), void *context);

// The compiler's scratch space for an access, on the stack of the function that makes it: the node of a list, newest
// first. The lowest bit of `next` distinguishes reads from modifications. An access that is not tracked has a null `address`.
struct access_node {
  const void *address;
  const void *pc;
  uintptr_t next;
};

// Always inlined: else they would be instrumented, in functions that must not be.
static inline __attribute__((always_inline)) const struct access_node *access_next(const struct access_node *node) {
  return (const struct access_node *)(node->next & ~(uintptr_t)1);
}

static inline __attribute__((always_inline)) void access_set_next(struct access_node *node, uintptr_t next) { node->next = next | (node->next & 1); }

enum { ACCESS_MODIFY = 1, ACCESS_TRACKED = 0x20 };

extern void swift_beginAccess(const void *address, struct access_node *node, uintptr_t flags, const void *pc);
extern void swift_endAccess(struct access_node *node);

// A task's accesses, put before the thread's and taken off again; {head, last node} while the task is suspended. Weak:
// they are needed only where the head's address is not known.
extern void swift_task_enterThreadLocalContext(uintptr_t state[2]) __attribute__((weak));
extern void swift_task_exitThreadLocalContext(uintptr_t state[2]) __attribute__((weak));

extern SWIFT_CC void *swift_task_getCurrent(void);

// The executor of the code that runs here; one without an identity is no actor's.
struct executor {
  const void *identity;
  uintptr_t implementation;
};
extern SWIFT_CC struct executor swift_task_getCurrentExecutor(void);

// The number by which Swift's descriptions of jobs name a task. No other task gets it.
extern SWIFT_CC uint64_t swift_task_getJobTaskId(void *task);

// A task-local binding: an item of a list, newest first. `next` carries the item's kind in its low bits. A marker is
// nothing but its `next`; in any other item the value follows, aligned for its type. The list's head is a word of the
// task object, or for code outside every task the storage that the thread's word points to.
struct binding {
  uintptr_t next;
  const void *key;
  const void *type;
};

enum {
  BINDING_KIND = 7,
  // The kinds, among them two markers. A child task's list goes on in its parent's through a link. A stop hides all
  // that follows: the runtime pushes one around an isolated `deinit`.
  BINDING_VALUE = 0,
  BINDING_VALUE_IN_TASK_GROUP_BODY = 2,
  BINDING_PARENT_LINK = 4,
  BINDING_STOP = 6,
  BINDING_MARKER = 4,
};

static inline const struct binding *binding_next(const struct binding *binding) {
  return (const struct binding *)(binding->next & ~(uintptr_t)BINDING_KIND);
}

// Moves the value out of `value` into the new binding.
extern SWIFT_CC void swift_task_localValuePush(const void *key, void *value, const void *type);
extern SWIFT_CC void *swift_task_localValueGet(const void *key);
extern SWIFT_CC void swift_task_localValuePop(void);

// The metadata of `Int`. GNU's assembler takes a dollar without quotes for that of a constant.
#if defined(__clang__)
extern const char swift_int_type[] __asm__("$sSiN");
#else
extern const char swift_int_type[] __asm__("\"$sSiN\"");
#endif

// A type's value witnesses, as far as they are used here. Metadata is preceded by a pointer to them.
struct value_witnesses {
  void *initialize_buffer_with_copy_of_buffer;
  void (*destroy)(void *value, const void *type);
  void *(*initialize_with_copy)(void *target, const void *source, const void *type);
  void *assign_with_copy;
  void *initialize_with_take;
  void *assign_with_take;
  void *get_enum_tag_single_payload;
  void *store_enum_tag_single_payload;
  size_t size;
  size_t stride;
  // The lowest byte is the alignment minus one.
  uint32_t flags;
};

static inline const struct value_witnesses *witnesses_of(const void *type) {
  return ((const struct value_witnesses *const *)type)[-1];
}

static inline size_t alignment_mask_of(const void *type) { return witnesses_of(type)->flags & 0xff; }

// Where the value of a binding of `type` begins, from the binding's start.
static inline size_t binding_value_offset(const void *type) {
  size_t mask = alignment_mask_of(type);
  return (sizeof(struct binding) + mask) & ~mask;
}

// Two words of a thread: the exceptions that are being handled there, newest first; and, in the lower half of the second, how
// many were thrown and not caught yet.
struct exceptions {
  uintptr_t caught;
  uintptr_t uncaught;
};

// The calling thread's, NULL where there is no C++. Of the C++ library's binary interface.
extern struct exceptions *coroutine_exceptions_of_thread(void);
