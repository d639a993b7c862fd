// SPDX-License-Identifier: Apache-2.0

// The words that the Swift runtime keeps per thread and that belong to the code that runs there.
//
//     access   libswiftCore          head of the list of exclusive accesses in progress
//     task     libswift_Concurrency  the running task
//     locals   libswift_Concurrency  the task-local bindings of code that runs outside every task
//
// and two of the library of C++, which Swift's runtime is linked with: the exceptions that are being handled, newest first, and
// how many are on their way to a handler.
//
// The runtime takes for granted that code ends on the thread, and inside the task, that it began on. A coroutine keeps
// to neither, so it has words of its own, exchanged for the thread's whenever it is resumed and whenever it suspends.
// An access begun on one thread can then be ended on another, a binding made around a suspension does not leak into
// what runs next on the thread, and no coroutine pushes bindings into the task that happened to resume it.
//
// A coroutine's task word is zero: inside it `withUnsafeCurrentTask` gives nil and `Task.isCancelled` is false, also
// where a task resumed it. A `Task {}` started inside inherits the coroutine's bindings. The runtime has a fourth word,
// the executor that the thread works for. It stays the thread's: that is what the code runs on, and what
// `assumeIsolated` asks about.
//
// None of the three has a symbol. They are thread-local variables of a library that was loaded with the program, so
// each lies at an offset from the thread pointer that is the same on all threads. swift_thread_state_probe.c finds the
// offsets at the first use, once. A word that has none, since its library was loaded later, has the offset 0, which is no
// thread-local's, and the functions below then take the slower way described in swift_thread_state.c.
//
// No address of a thread-local appears anywhere here. A compiler may keep such an address across a switch of stacks,
// and after it the code runs on another thread: every load and store names the thread pointer anew.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COROUTINE_THREAD_STATE_INLINE static inline __attribute__((always_inline))
#define COROUTINE_THREAD_STATE_LIKELY(condition) __builtin_expect(!!(condition), 1)

// What is known about the runtime that this process runs with.
enum coroutine_thread_state_found {
  // An access of a coroutine stays with it, be its word found or exchanged by the runtime. Without it, one that is in
  // progress at a suspension must end on the same thread.
  COROUTINE_THREAD_STATE_ACCESS = 1,
  // The list of accesses has the known layout, beyond its head.
  COROUTINE_THREAD_STATE_ACCESS_LIST = 2,
  // The running task is hidden from a coroutine. Without it, a coroutine must not be resumed by code inside a task.
  COROUTINE_THREAD_STATE_TASK = 4,
  // Bindings that a coroutine makes outside tasks stay with it. Without it, none may be in force when it suspends.
  COROUTINE_THREAD_STATE_LOCALS = 8,
  // A binding has the known layout: coroutines inherit their creator's. Without it, they inherit nothing.
  COROUTINE_THREAD_STATE_BINDINGS = 16,
  // A coroutine's C++ exceptions stay with it, or there is no C++.
  COROUTINE_THREAD_STATE_EXCEPTIONS = 32,
};

// Where a word lies that each thread has elsewhere: what the C library's __tls_get_addr takes. Module 0: not known.
struct swift_thread_tls_index {
  unsigned long module;
  unsigned long offset;
};

// Offsets in bytes from the thread pointer, 0 for a word that has no common one. Each is written once and stands by itself,
// so that relaxed loads do: it is 0 until the probe has found the word, and final afterwards.
struct swift_thread_state_offsets {
  ptrdiff_t access;
  ptrdiff_t task;
  ptrdiff_t locals;
  // The same as `task` where `locals` lies COROUTINE_LOCALS_AFTER_TASK above it, so that one load gives both offsets.
  ptrdiff_t bindings;
  // Of the two words of C++; where there is no C++, of two words that are always 0.
  ptrdiff_t exceptions;
  // Where a task object has the head of its bindings: 0 while no thread has looked, -1 if it cannot be known. Looked
  // for when a coroutine is first created inside a task.
  ptrdiff_t task_head;
  // The union of `coroutine_thread_state_found`.
  uint32_t found;
  // The same words, where the offsets are 0. Constant after the probe.
  struct swift_thread_tls_index access_index;
  struct swift_thread_tls_index task_index;
  struct swift_thread_tls_index locals_index;
};

extern struct swift_thread_state_offsets coroutine_thread_state_at;

// How far above the running task the libraries that are known keep the bindings of code outside tasks.
#define COROUTINE_LOCALS_AFTER_TASK 16

// Whether what is loaded at offset 0 differs from every word of a coroutine. On x86-64 the ABI has the thread pointer
// itself there, which saves a test on the way that matters. Elsewhere it may be anything, but can always be loaded.
#if defined(__x86_64__)
#define COROUTINE_THREAD_STATE_NOT_FOUND_DIFFERS true
#else
#define COROUTINE_THREAD_STATE_NOT_FOUND_DIFFERS false
#endif

// One coroutine's words while it is suspended, the thread's own while it runs. All zero: no access in progress, outside
// every task, no bindings. To be touched by one thread at a time, as the coroutine itself. To Swift code it must be raw
// memory: a stored property passed `inout` is an access in progress, begun before the exchange and ended after it.
struct swift_thread_state {
  // A list's head, and two bits: COROUTINE_EXCEPTIONS_SAVED says whether one of the last two words is not zero.
  uintptr_t access;
  uintptr_t task;
  uintptr_t locals;
  // Where a coroutine suspends while it handles a C++ exception, or where its resumer does.
  uintptr_t caught_exceptions;
  uintptr_t uncaught_exceptions;
};

// A coroutine's that has bindings, and nothing else.
COROUTINE_THREAD_STATE_INLINE struct swift_thread_state coroutine_thread_state_with_locals(uintptr_t locals) {
  return (struct swift_thread_state){.locals = locals};
}

// Nodes of the list are aligned for a word. The bit is with their head, which is looked at anyway.
#define COROUTINE_EXCEPTIONS_SAVED ((uintptr_t)1)
// The same for a suspended coroutine whose accesses are in the chain of shared_accesses.h.
#define COROUTINE_ACCESSES_SHARED ((uintptr_t)2)

#if defined(__x86_64__) && !defined(__ILP32__)

COROUTINE_THREAD_STATE_INLINE uintptr_t coroutine_thread_word_load(ptrdiff_t offset) {
  uintptr_t word;
  __asm__ volatile("movq %%fs:(%1), %0" : "=r"(word) : "r"(offset) : "memory");
  return word;
}

COROUTINE_THREAD_STATE_INLINE void coroutine_thread_word_store(ptrdiff_t offset, uintptr_t word) {
  __asm__ volatile("movq %0, %%fs:(%1)" : : "r"(word), "r"(offset) : "memory");
}

// A load that the compiler may leave out where nothing can have changed the word since the last one: no call, no switch. It
// names the thread as the others do.
COROUTINE_THREAD_STATE_INLINE uintptr_t coroutine_thread_word_peek(ptrdiff_t offset) {
  return *(const uintptr_t __seg_fs *)offset;
}

#elif defined(__aarch64__) && !defined(__ILP32__)

COROUTINE_THREAD_STATE_INLINE uintptr_t coroutine_thread_word_load(ptrdiff_t offset) {
  uintptr_t word;
  __asm__ volatile("mrs %0, tpidr_el0\n\tldr %0, [%0, %1]" : "=&r"(word) : "r"(offset) : "memory");
  return word;
}

COROUTINE_THREAD_STATE_INLINE void coroutine_thread_word_store(ptrdiff_t offset, uintptr_t word) {
  uintptr_t scratch;
  __asm__ volatile("mrs %0, tpidr_el0\n\tstr %1, [%0, %2]" : "=&r"(scratch) : "r"(word), "r"(offset) : "memory");
}

#else

// Elsewhere a call hides the thread pointer from the optimiser.
extern uintptr_t coroutine_thread_word_load(ptrdiff_t offset);
extern void coroutine_thread_word_store(ptrdiff_t offset, uintptr_t word);

#endif

#if !(defined(__x86_64__) && !defined(__ILP32__))
COROUTINE_THREAD_STATE_INLINE uintptr_t coroutine_thread_word_peek(ptrdiff_t offset) {
  return coroutine_thread_word_load(offset);
}
#endif

// The ways taken before the first probe and where a word was not found. `at` says what is known: `coroutine_thread_state_at`,
// or in tests less than that.
extern void coroutine_thread_state_exchange_slowly(struct swift_thread_state *words, bool enters);
extern void coroutine_thread_state_exchange_at(const struct swift_thread_state_offsets *at, struct swift_thread_state *words,
                                               bool enters);
extern uintptr_t coroutine_thread_state_capture_slowly(void);
extern void coroutine_thread_state_capture_at(struct swift_thread_state_offsets *at, struct swift_thread_state *words);
extern void coroutine_thread_state_release_slowly(struct swift_thread_state *words);
extern bool coroutine_access_set_is_empty_slowly(void);
extern bool coroutine_access_set_is_empty_at(const struct swift_thread_state_offsets *at);
extern bool coroutine_access_set_touches_at(const struct swift_thread_state_offsets *at, const void *low, const void *high);

// The list of accesses that a thread has after a coroutine entered it, or left it, and that had `head` before. `words` has the
// other one of the two lists. Linear in the number of accesses that are the coroutine's own.
extern uintptr_t coroutine_accesses_exchange(struct swift_thread_state *words, uintptr_t head, bool enters);

// The union of `coroutine_thread_state_found`; waits for the probe at the first call. From any thread.
extern uint32_t coroutine_thread_state_found(void);

// The offset `bindings` of `coroutine_thread_state_at`; waits as above. It does not change any more.
extern ptrdiff_t coroutine_bindings_offset(void);

// For tests, before the first coroutine: from here on no word has a common offset; or these words, a union of
// `coroutine_thread_state_found`, are not known at all.
extern void coroutine_thread_state_forget_offsets(void);
extern void coroutine_thread_state_forget(uint32_t words);

// Looks for everything anew and leaves what it found in `result`: what `coroutine_thread_state_at` is filled with at the first
// use. Takes two short-lived threads and changes nothing on the caller's. From any thread.
extern void coroutine_thread_state_probe(struct swift_thread_state_offsets *result);

// Whether C++ exceptions are handled, or on their way, on this thread: not 0 if so, or if that is not known.
COROUTINE_THREAD_STATE_INLINE uintptr_t coroutine_exceptions_on_thread(void) {
  ptrdiff_t at = __atomic_load_n(&coroutine_thread_state_at.exceptions, __ATOMIC_RELAXED);
  return coroutine_thread_word_load(at) | coroutine_thread_word_load(at + (ptrdiff_t)sizeof(uintptr_t));
}

// A coroutine has left its thread with accesses of its own open, which are the list in `words`: they go into the chain
// of the domain in which it runs, if it runs in one (shared_accesses.h).
extern void coroutine_accesses_left(struct swift_thread_state *words);

// It goes on: they leave the chain.
extern void coroutine_accesses_return(struct swift_thread_state *words);

// The head of the thread's list of accesses, where the word is known.
extern uintptr_t coroutine_access_word_load(void);
extern void coroutine_access_word_store(uintptr_t head);

// Exchanges the exceptions. Returns COROUTINE_EXCEPTIONS_SAVED if `words` has some now. `words->access` is not touched.
extern uintptr_t coroutine_exceptions_exchange(struct swift_thread_state *words);

// Exchanges the thread's words and those in `words`. Mostly all of them are zero on both sides, so a word is written
// only where the two differ.
//
// The list of accesses is not simply exchanged where the resumer has some in progress: they are in progress for the
// coroutine's code too, which runs on top of them, and must not touch the same variables. So the resumer's list becomes the
// tail of the coroutine's own, and is cut off again when it leaves. In between `words->access` is that tail's first node,
// which stays as it is: no node of it can end before the resumer goes on. Without one it is 0, and leaving is
// an exchange. Nothing of the resumer's is in the words of a suspended coroutine.
//
// Exceptions are looked for on the thread only if `looks_for_exceptions`: a scheduler's loop, which resumes most coroutines,
// handles none.
COROUTINE_THREAD_STATE_INLINE void coroutine_thread_state_exchange(struct swift_thread_state *words, bool enters,
                                                                   bool looks_for_exceptions) {
  ptrdiff_t access_at = __atomic_load_n(&coroutine_thread_state_at.access, __ATOMIC_RELAXED);
  ptrdiff_t task_at = __atomic_load_n(&coroutine_thread_state_at.task, __ATOMIC_RELAXED);
  ptrdiff_t locals_at = __atomic_load_n(&coroutine_thread_state_at.locals, __ATOMIC_RELAXED);
  uintptr_t access = coroutine_thread_word_load(access_at);
  uintptr_t task = coroutine_thread_word_load(task_at);
  uintptr_t locals = coroutine_thread_word_load(locals_at);
  uintptr_t exceptions = looks_for_exceptions ? coroutine_exceptions_on_thread() : 0;
  // Not whether the first two are equal: they are, too, where a coroutine leaves with nothing but the resumer's list.
  if (COROUTINE_THREAD_STATE_LIKELY((access | words->access | exceptions) == 0 && task == words->task &&
                                    locals == words->locals)) {
    if (COROUTINE_THREAD_STATE_NOT_FOUND_DIFFERS || (access_at != 0 && task_at != 0 && locals_at != 0)) return;
  }
  if (!COROUTINE_THREAD_STATE_LIKELY(access_at != 0 && task_at != 0 && locals_at != 0)) {
    coroutine_thread_state_exchange_slowly(words, enters);
    return;
  }
  uintptr_t saved = words->access & COROUTINE_EXCEPTIONS_SAVED;
  words->access -= saved;
  if ((exceptions | saved) != 0) saved = coroutine_exceptions_exchange(words);
  if (enters && (words->access & COROUTINE_ACCESSES_SHARED) != 0) coroutine_accesses_return(words);
  if ((access | words->access) != 0) {
    if (COROUTINE_THREAD_STATE_LIKELY((enters ? access : words->access) == 0)) {
      coroutine_thread_word_store(access_at, words->access);
      words->access = access;
    } else {
      coroutine_thread_word_store(access_at, coroutine_accesses_exchange(words, access, enters));
    }
    if (!enters && words->access != 0) coroutine_accesses_left(words);
  }
  if (task != words->task) {
    coroutine_thread_word_store(task_at, words->task);
    words->task = task;
  }
  if (locals != words->locals) {
    coroutine_thread_word_store(locals_at, words->locals);
    words->locals = locals;
  }
  words->access |= saved;
}

// Gives the thread the words of the coroutine that is about to be resumed. On the resumer's side, before the switch.
COROUTINE_THREAD_STATE_INLINE void coroutine_thread_state_enter(struct swift_thread_state *words) {
  coroutine_thread_state_exchange(words, true, true);
}

// The same in a pool's loop, which handles no exception.
COROUTINE_THREAD_STATE_INLINE void coroutine_thread_state_enter_from_loop(struct swift_thread_state *words) {
  coroutine_thread_state_exchange(words, true, false);
}

// Takes the coroutine's words off the thread again, which gets its own back. On the resumer's side, after the switch,
// so on the thread that entered.
COROUTINE_THREAD_STATE_INLINE void coroutine_thread_state_leave(struct swift_thread_state *words) {
  coroutine_thread_state_exchange(words, false, true);
}

// The only word of a new coroutine that is not zero, `locals`: copies of the task-local bindings visible here, as `Task {}`
// makes them. On the creator's thread, inside or outside a task. Two loads where there are no bindings, otherwise linear in
// the number of visible bindings times that of all bindings.
COROUTINE_THREAD_STATE_INLINE uintptr_t coroutine_thread_state_capture(void) {
  ptrdiff_t task_at = __atomic_load_n(&coroutine_thread_state_at.task, __ATOMIC_RELAXED);
  ptrdiff_t locals_at = __atomic_load_n(&coroutine_thread_state_at.locals, __ATOMIC_RELAXED);
  if (COROUTINE_THREAD_STATE_LIKELY(task_at != 0 && locals_at != 0)) {
    uintptr_t task = coroutine_thread_word_load(task_at);
    if (task == 0) {
      if (COROUTINE_THREAD_STATE_LIKELY(coroutine_thread_word_load(locals_at) == 0)) return 0;
    } else {
      ptrdiff_t head = __atomic_load_n(&coroutine_thread_state_at.task_head, __ATOMIC_RELAXED);
      if (COROUTINE_THREAD_STATE_LIKELY(head > 0 && *(const uintptr_t *)(task + (uintptr_t)head) == 0)) return 0;
    }
  }
  return coroutine_thread_state_capture_slowly();
}

// Whether a coroutine has left the thread with an access open.
COROUTINE_THREAD_STATE_INLINE bool coroutine_thread_state_has_access(const struct swift_thread_state *words) {
  return (words->access & ~COROUTINE_EXCEPTIONS_SAVED) != 0;
}

// Ends the bindings of a coroutine that has finished, or that never ran. From any thread, at the coroutine's end; not
// between enter and leave. The bound values' `deinit`s run here, outside every task.
COROUTINE_THREAD_STATE_INLINE void coroutine_thread_state_release(struct swift_thread_state *words) {
  if (!COROUTINE_THREAD_STATE_LIKELY(words->locals == 0)) coroutine_thread_state_release_slowly(words);
}

// Whether no exclusive access is in progress in the code that runs here. Where the word was neither found nor can be
// reached otherwise, true: nothing is known of any access.
COROUTINE_THREAD_STATE_INLINE bool coroutine_access_set_is_empty(void) {
  ptrdiff_t offset = __atomic_load_n(&coroutine_thread_state_at.access, __ATOMIC_RELAXED);
  if (COROUTINE_THREAD_STATE_LIKELY(offset != 0)) return coroutine_thread_word_load(offset) == 0;
  return coroutine_access_set_is_empty_slowly();
}

// The words by which bindings are found, of the thread that runs here; 0 where they are not known.
struct coroutine_bindings_words {
  uintptr_t task;
  uintptr_t locals;
};

// `bindings_at` is what `coroutine_bindings_offset` returned.
COROUTINE_THREAD_STATE_INLINE struct coroutine_bindings_words coroutine_bindings_peek(ptrdiff_t bindings_at) {
  struct coroutine_bindings_words words = {
      .task = coroutine_thread_word_peek(bindings_at),
      .locals = coroutine_thread_word_peek(bindings_at + COROUTINE_LOCALS_AFTER_TASK),
  };
  return words;
}

// Whether no task-local binding is in force in the flow of control that runs here, and `other` is 0: one test outside
// of tasks, since this is on the way of each element of a generator. As far as that is known without a search: false
// where a word was not found, and in a task until a thread has looked for the head of its bindings. `words` is what
// `coroutine_bindings_peek` returned just now. In a task `*task` gets the word that says which.
COROUTINE_THREAD_STATE_INLINE bool coroutine_bindings_are_plain(ptrdiff_t bindings_at, struct coroutine_bindings_words words,
                                                         uintptr_t other, uintptr_t *task) {
  if (COROUTINE_THREAD_STATE_LIKELY((other | words.task | words.locals) == 0)) {
    return COROUTINE_THREAD_STATE_NOT_FOUND_DIFFERS || bindings_at != 0;
  }
  // In a task the thread's own bindings do not count. Branches, as they are all predicted.
  if (COROUTINE_THREAD_STATE_LIKELY(other == 0 && bindings_at != 0)) {
    ptrdiff_t head = __atomic_load_n(&coroutine_thread_state_at.task_head, __ATOMIC_RELAXED);
    if (COROUTINE_THREAD_STATE_LIKELY(words.task != 0 && head > 0)) {
      *task = words.task;
      return *(const uintptr_t *)(words.task + (uintptr_t)head) == 0;
    }
  }
  return false;
}

// The same after a switch, and no access is in progress either; and if this is a task, it is the one in `*task`, which is not
// looked at elsewhere.
COROUTINE_THREAD_STATE_INLINE bool coroutine_flow_is_plain(ptrdiff_t bindings_at, uintptr_t other, const uintptr_t *task) {
  ptrdiff_t access_at = __atomic_load_n(&coroutine_thread_state_at.access, __ATOMIC_RELAXED);
  struct coroutine_bindings_words words = coroutine_bindings_peek(bindings_at);
  other |= coroutine_thread_word_peek(access_at);
  if (COROUTINE_THREAD_STATE_LIKELY((other | words.task | words.locals) == 0)) {
    return COROUTINE_THREAD_STATE_NOT_FOUND_DIFFERS || bindings_at != 0;
  }
  uintptr_t now;
  return words.task == *task && coroutine_bindings_are_plain(bindings_at, words, other, &now);
}

// For the rare ways round a `coroutine_flow_is_plain`: the same loads, so that the compiler has these words in registers
// whichever way was taken, and the next `coroutine_bindings_are_plain` of a loop need not load them. The same for two more
// words of the caller's. The compiler would leave loads out that nothing depends on, and cannot know that the words together
// never make 1: `address` is that of a block.
COROUTINE_THREAD_STATE_INLINE void coroutine_thread_state_look(ptrdiff_t bindings_at, uintptr_t address, uintptr_t other) {
  struct coroutine_bindings_words words = coroutine_bindings_peek(bindings_at);
  if ((words.task | words.locals | address | other) == 1) __builtin_trap();
}

// Whether `one`, which has the turn, and `other`, which is suspended, can change places with nothing to exchange: all
// words of both, and those that the thread had before, are 0. Also false where that is not known.
COROUTINE_THREAD_STATE_INLINE bool coroutine_thread_states_are_plain(const struct swift_thread_state *one,
                                                      const struct swift_thread_state *other) {
  const struct swift_thread_state_offsets *at = &coroutine_thread_state_at;
  ptrdiff_t access_at = __atomic_load_n(&at->access, __ATOMIC_RELAXED);
  ptrdiff_t bindings_at = __atomic_load_n(&at->bindings, __ATOMIC_RELAXED);
  uintptr_t words = one->access | one->task | one->locals | other->access | other->task | other->locals;
  words |= coroutine_thread_word_peek(access_at) | coroutine_thread_word_peek(bindings_at)
           | coroutine_thread_word_peek(bindings_at + COROUTINE_LOCALS_AFTER_TASK) | coroutine_exceptions_on_thread();
  return words == 0 && (COROUTINE_THREAD_STATE_NOT_FOUND_DIFFERS || (access_at != 0 && bindings_at != 0));
}

extern uintptr_t coroutine_task_word_slowly(void);

// The task that runs on this thread; 0: none, or that is not known.
COROUTINE_THREAD_STATE_INLINE uintptr_t coroutine_task_word(void) {
  ptrdiff_t task_at = __atomic_load_n(&coroutine_thread_state_at.task, __ATOMIC_RELAXED);
  if (COROUTINE_THREAD_STATE_LIKELY(task_at != 0)) return coroutine_thread_word_load(task_at);
  return coroutine_task_word_slowly();
}

// Whether a task runs on this thread, rather than a coroutine's own code: false where that is not known.
COROUTINE_THREAD_STATE_INLINE bool coroutine_is_inside_task(void) { return coroutine_task_word() != 0; }

// Whether one of the functions whose frames begin with `frame`, on the stack [low, high), is the initialiser of a static or
// global variable. By frame pointers: what has none is passed over, or ends the look. NULL: the calling functions' frames.
extern bool coroutine_initialises_variable(const void *frame, const void *low, const void *high);

// Whether the thread's calls of `withObservationTracking` include one on the stack [low, high). False where Observation is linked
// statically, or was loaded after this library.
extern bool coroutine_tracks_properties(const void *low, const void *high);

// Whether the thread's calls of `queue.sync` and `concurrentPerform` include one on the stack [low, high). False where Dispatch is
// linked statically.
extern bool coroutine_is_inside_dispatch_block(const void *low, const void *high);

// Whether the thread runs the `isolated deinit` of an actor whose last reference went on the stack [low, high). False where
// libswift_Concurrency is linked statically.
extern bool coroutine_is_inside_isolated_deinit(const void *low, const void *high);

// The bindings in force in the code that runs here: the task that keeps them, or else the thread's storage, and the
// newest of them. All zero without any, and where they are not known.
struct coroutine_bindings {
  uintptr_t task;
  uintptr_t storage;
  uintptr_t head;
};
extern struct coroutine_bindings coroutine_bindings_load_slowly(void);

COROUTINE_THREAD_STATE_INLINE struct coroutine_bindings coroutine_bindings_load(void) {
  ptrdiff_t bindings_at = __atomic_load_n(&coroutine_thread_state_at.bindings, __ATOMIC_RELAXED);
  uintptr_t task;
  if (COROUTINE_THREAD_STATE_LIKELY(coroutine_bindings_are_plain(bindings_at, coroutine_bindings_peek(bindings_at), 0, &task))) {
    return (struct coroutine_bindings){0, 0, 0};
  }
  return coroutine_bindings_load_slowly();
}

// Puts those in force that a load found in the same flow of control. Whatever was in force is not freed.
extern void coroutine_bindings_store(struct coroutine_bindings bindings);

// Whether an access in progress here was begun by a frame in [low, high): its node lies there. Linear in the number of
// accesses. Where the layout of the list is not known, only the latest access is looked at.
extern bool coroutine_access_set_touches(const void *low, const void *high);

// Whether the running coroutine, whose words are `words`, has accesses in progress besides those of its resumer. True also where
// that is not known.
extern bool coroutine_has_accesses_of_its_own(const struct swift_thread_state *words);

// The newest of them, as an address; 0: there is none, or that is not known.
extern uintptr_t coroutine_newest_access_of_its_own(const struct swift_thread_state *words);

// Whether the access that such a call has returned has not ended.
extern bool coroutine_access_is_open(uintptr_t access);
