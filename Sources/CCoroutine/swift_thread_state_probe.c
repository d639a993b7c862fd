// SPDX-License-Identifier: Apache-2.0

// Finds the words described in swift_thread_state.h: where they lie, and whether what they lead to looks as expected.
//
// The candidates are the words of one thread-local block: that of the library that has the runtime's functions, or of
// the program itself when the runtime is linked statically. Which of them is the right one is for the runtime to say:
// change a candidate, ask the runtime what it sees, change it back. All of this happens on a new thread that does
// nothing else, and in between nothing runs but the function that is asked, which only reads.
//
// A second thread, while the first still lives, checks the result with real operations, and so does the calling thread. What
// does not pass counts as not found. A library that was loaded later has its thread-locals elsewhere on each thread: then the
// offset within the library's block passes, and the offset from the thread pointer does not.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "swift_thread_state.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "swift_runtime.h"

// The calling thread's thread-local block of one loaded object, as offsets from the thread pointer.
struct block {
  const void *function;  // one of the object's functions
  unsigned long module;
  ptrdiff_t start;
  ptrdiff_t end;
};

static int match_object(struct dl_phdr_info *object, size_t size, void *context) {
  struct block *block = context;
  if (size < offsetof(struct dl_phdr_info, dlpi_tls_data) + sizeof object->dlpi_tls_data) return 1;
  bool has_function = false;
  size_t block_size = 0;
  for (size_t i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
    uintptr_t start = object->dlpi_addr + segment->p_vaddr;
    if (segment->p_type == PT_LOAD && (uintptr_t)block->function - start < segment->p_memsz) has_function = true;
    if (segment->p_type == PT_TLS) block_size = segment->p_memsz;
  }
  if (!has_function) return 0;
  if (object->dlpi_tls_data != NULL) {
    block->module = object->dlpi_tls_modid;
    block->start = (ptrdiff_t)((uintptr_t)object->dlpi_tls_data - (uintptr_t)__builtin_thread_pointer());
    // The block is aligned for a word at least; a rest at its end is none.
    block->end = block->start + (ptrdiff_t)(block_size & ~(sizeof(uintptr_t) - 1));
  }
  return 1;
}

// The block of the object that has `function`. This thread must have called it: before that there may be no block.
static struct block block_of(const void *function) {
  struct block block = {.function = function};
  dl_iterate_phdr(match_object, &block);
  return block;
}

// Whether it is safe to load and store there at all. An offset taken on another thread can lead anywhere.
static bool block_has(struct block block, ptrdiff_t offset) { return block.start <= offset && offset < block.end; }

// The offset on the calling thread; 0 where the index is not known.
static ptrdiff_t offset_of(struct swift_thread_tls_index index) {
  if (index.module == 0) return 0;
  return (ptrdiff_t)(coroutine_word_address(&index) - (uintptr_t)__builtin_thread_pointer());
}

// The index that has this offset on the calling thread.
static struct swift_thread_tls_index index_of(struct block block, ptrdiff_t offset) {
  struct swift_thread_tls_index index = {0, 0};
  if (!block_has(block, offset)) return index;
  index.module = block.module;
  index.offset = (unsigned long)(offset - offset_of(index));
  return index;
}

// Whether the accesses in progress can be taken off the thread and put back without their word: by the runtime.
static bool accesses_can_be_exchanged_by_runtime(const struct access_node *latest) {
  const struct swift_thread_state_offsets nothing_found = {0};
  struct swift_thread_state words = {0};
  coroutine_thread_state_exchange_at(&nothing_found, &words, true);
  bool taken = words.access == (uintptr_t)latest && coroutine_access_set_is_empty_at(&nothing_found);
  coroutine_thread_state_exchange_at(&nothing_found, &words, false);
  return taken && words.access == 0;
}

// Begins and ends an access on this thread, whatever else is in progress.
static bool access_word_works(ptrdiff_t offset) {
  const uintptr_t target = 0;
  struct access_node node;
  swift_beginAccess(&target, &node, ACCESS_MODIFY | ACCESS_TRACKED, NULL);
  bool safe = block_has(block_of((const void *)swift_beginAccess), offset);
  bool begun = safe && coroutine_thread_word_load(offset) == (uintptr_t)&node;
  swift_endAccess(&node);
  return begun && coroutine_thread_word_load(offset) != (uintptr_t)&node;
}

static void find_access(struct swift_thread_state_offsets *at) {
  const uintptr_t outer_target = 0, inner_target = 0;
  struct access_node outer, inner;
  swift_beginAccess(&outer_target, &outer, ACCESS_MODIFY | ACCESS_TRACKED, NULL);
  // Null where the program has switched the checks off. Nothing is tracked then, and the list stays empty.
  if (outer.address != NULL) {
    struct block block = block_of((const void *)swift_beginAccess);
    for (ptrdiff_t offset = block.start; offset < block.end; offset += sizeof(uintptr_t)) {
      if (coroutine_thread_word_load(offset) == (uintptr_t)&outer) at->access = offset;
    }
    at->access_index = index_of(block, at->access);
    if (accesses_can_be_exchanged_by_runtime(&outer)) at->found |= COROUTINE_THREAD_STATE_ACCESS;
    swift_beginAccess(&inner_target, &inner, ACCESS_MODIFY | ACCESS_TRACKED, NULL);
    if (access_next(&inner) == &outer && access_next(&outer) == NULL) at->found |= COROUTINE_THREAD_STATE_ACCESS_LIST;
    swift_endAccess(&inner);
  }
  swift_endAccess(&outer);
}

// Planted where the running task may be. The runtime gives it back and does not look into it.
static char planted_task[16] __attribute__((aligned(16)));

// Whether what is stored at `offset`, zero until now, is what the runtime takes for the running task.
NOT_INSTRUMENTED static bool task_lies_at(ptrdiff_t offset) {
  coroutine_thread_word_store(offset, (uintptr_t)planted_task);
  bool seen = swift_task_getCurrent() == planted_task;
  coroutine_thread_word_store(offset, 0);
  return seen;
}

static void find_task(struct swift_thread_state_offsets *at) {
  if (swift_task_getCurrent() != NULL) return;
  struct block block = block_of((const void *)swift_task_getCurrent);
  for (ptrdiff_t offset = block.start; offset < block.end && at->task == 0; offset += sizeof(uintptr_t)) {
    if (coroutine_thread_word_load(offset) == 0 && task_lies_at(offset)) at->task = offset;
  }
  at->task_index = index_of(block, at->task);
}

static const char key[16] __attribute__((aligned(16)));

// Whether a binding of `key` is gone as long as the word at `offset` is zero.
NOT_INSTRUMENTED static bool locals_lie_at(ptrdiff_t offset) {
  uintptr_t word = coroutine_thread_word_load(offset);
  coroutine_thread_word_store(offset, 0);
  bool gone = swift_task_localValueGet(key) == NULL;
  coroutine_thread_word_store(offset, word);
  return gone;
}

// Outside every task.
static void find_locals(struct swift_thread_state_offsets *at) {
  intptr_t value = 1;
  swift_task_localValuePush(key, &value, swift_int_type);
  if (swift_task_localValueGet(key) != NULL) {
    struct block block = block_of((const void *)swift_task_getCurrent);
    for (ptrdiff_t offset = block.start; offset < block.end && at->locals == 0; offset += sizeof(uintptr_t)) {
      if (coroutine_thread_word_load(offset) != 0 && locals_lie_at(offset)) at->locals = offset;
    }
    at->locals_index = index_of(block, at->locals);
  }
  swift_task_localValuePop();
}

// With the last binding the runtime must free the storage and clear the word: the end of a coroutine relies on it.
static bool locals_word_works(ptrdiff_t offset) {
  intptr_t value = 1;
  swift_task_localValuePush(key, &value, swift_int_type);
  bool safe = block_has(block_of((const void *)swift_task_getCurrent), offset);
  bool bound = safe && coroutine_thread_word_load(offset) != 0 && locals_lie_at(offset);
  swift_task_localValuePop();
  return bound && coroutine_thread_word_load(offset) == 0;
}

// Whether `value` is what the runtime finds for `key` in a list of bindings that begins with `head`.
NOT_INSTRUMENTED static bool lookup_gives(ptrdiff_t locals, const void *head, const void *value) {
  const void *storage = head;
  coroutine_thread_word_store(locals, (uintptr_t)&storage);
  bool found = swift_task_localValueGet(key) == value;
  coroutine_thread_word_store(locals, 0);
  return found;
}

// Has the runtime look through lists made by hand, with each kind of item.
static bool bindings_look_as_expected(ptrdiff_t locals) {
  static const char other_key[16] __attribute__((aligned(16)));
  struct int_binding {
    struct binding binding;
    intptr_t value;
  };
  struct int_binding last = {{BINDING_VALUE, key, swift_int_type}, 1};
  struct int_binding newer = {{(uintptr_t)&last | BINDING_VALUE, key, swift_int_type}, 2};
  struct int_binding other = {{(uintptr_t)&last | BINDING_VALUE_IN_TASK_GROUP_BODY, other_key, swift_int_type}, 3};
  uintptr_t link = (uintptr_t)&last | BINDING_PARENT_LINK;
  uintptr_t stop = (uintptr_t)&last | BINDING_STOP;
  return binding_value_offset(swift_int_type) == offsetof(struct int_binding, value) &&
         lookup_gives(locals, &newer, &newer.value) && lookup_gives(locals, &other, &last.value) &&
         lookup_gives(locals, &link, &last.value) && lookup_gives(locals, &stop, NULL);
}

// Weak: Swift's runtime needs the library, but a program that is linked with that need not see its symbols.
extern struct exceptions *__cxa_get_globals(void) __attribute__((weak));

struct exceptions *coroutine_exceptions_of_thread(void) {
  typedef struct exceptions *(*get_globals)(void);
  static get_globals found;
  static bool has_looked;
  if (__cxa_get_globals != NULL) return __cxa_get_globals();
  if (!__atomic_load_n(&has_looked, __ATOMIC_ACQUIRE)) {
    __atomic_store_n(&found, (get_globals)dlsym(RTLD_DEFAULT, "__cxa_get_globals"), __ATOMIC_RELAXED);
    __atomic_store_n(&has_looked, true, __ATOMIC_RELEASE);
  }
  get_globals get = __atomic_load_n(&found, __ATOMIC_RELAXED);
  return get == NULL ? NULL : get();
}

// Where there is no C++. Always 0.
static __thread struct exceptions no_exceptions __attribute__((tls_model("initial-exec")));

static ptrdiff_t exceptions_offset(void) {
  const struct exceptions *here = coroutine_exceptions_of_thread();
  return (ptrdiff_t)((uintptr_t)(here == NULL ? &no_exceptions : here) - (uintptr_t)__builtin_thread_pointer());
}

// Keeps of a word what is right on this thread, where it lies at `here` by its index, and `works` there or not.
static void keep_if(bool works, ptrdiff_t here, ptrdiff_t *offset, struct swift_thread_tls_index *index) {
  if (!works) index->module = 0;
  if (!works || *offset != here) *offset = 0;
}

#define KEEP_IF(works, at, word) keep_if(works, offset_of((at)->word##_index), &(at)->word, &(at)->word##_index)

// Leaves in `at` what of the words works on this thread too.
static void *verify(void *context) {
  struct swift_thread_state_offsets *at = context;
  ptrdiff_t access = offset_of(at->access_index), task = offset_of(at->task_index), locals = offset_of(at->locals_index);
  KEEP_IF(access_word_works(access), at, access);
  bool outside_tasks = swift_task_getCurrent() == NULL;
  struct block block = block_of((const void *)swift_task_getCurrent);
  KEEP_IF(outside_tasks && block_has(block, task) && task_lies_at(task), at, task);
  KEEP_IF(outside_tasks && locals_word_works(locals), at, locals);
  if (exceptions_offset() != at->exceptions) at->exceptions = 0;
  return NULL;
}

// Runs `body` on a new thread and waits for it. No signal is delivered there: a handler would run amid changed words.
static bool run_on_new_thread(void *(*body)(void *), void *context) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  int code = pthread_create(&thread, NULL, body, context);
  // A shortage of a moment would cost the whole process what is found out here.
  for (useconds_t pause = 1000; code == EAGAIN && pause <= 64000; pause *= 2) {
    usleep(pause);
    code = pthread_create(&thread, NULL, body, context);
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return code == 0 && pthread_join(thread, NULL) == 0;
}

static void *find(void *context) {
  struct swift_thread_state_offsets *at = context, found = {0};
  find_access(&found);
  find_task(&found);
  find_locals(&found);
  found.exceptions = exceptions_offset();
  // Started from here, so that its memory is not this thread's used again.
  if (!run_on_new_thread(verify, &found)) return NULL;
  ptrdiff_t locals = offset_of(found.locals_index);
  if (COROUTINE_KNOWS_WORD(&found, task) && locals != 0 && bindings_look_as_expected(locals)) {
    found.found |= COROUTINE_THREAD_STATE_BINDINGS;
  }
  *at = found;
  return NULL;
}

void coroutine_thread_state_probe(struct swift_thread_state_offsets *result) {
  struct swift_thread_state_offsets at = {0};
  run_on_new_thread(find, &at);

  // The calling thread may be the main one, or amid anything, in a task too: nothing is planted here.
  uintptr_t task = (uintptr_t)swift_task_getCurrent();
  struct block block = block_of((const void *)swift_task_getCurrent);
  ptrdiff_t task_at = offset_of(at.task_index);
  KEEP_IF(access_word_works(offset_of(at.access_index)), &at, access);
  KEEP_IF(block_has(block, task_at) && coroutine_thread_word_load(task_at) == task, &at, task);
  KEEP_IF(block_has(block, offset_of(at.locals_index)), &at, locals);
  if (exceptions_offset() != at.exceptions) at.exceptions = 0;

  if (COROUTINE_KNOWS_WORD(&at, access)) at.found |= COROUTINE_THREAD_STATE_ACCESS;
  if (COROUTINE_KNOWS_WORD(&at, task)) at.found |= COROUTINE_THREAD_STATE_TASK;
  if (COROUTINE_KNOWS_WORD(&at, locals)) at.found |= COROUTINE_THREAD_STATE_LOCALS;
  at.found |= COROUTINE_THREAD_STATE_EXCEPTIONS;
  if (!COROUTINE_KNOWS_WORD(&at, task) || !COROUTINE_KNOWS_WORD(&at, locals)) {
    at.found &= ~(uint32_t)COROUTINE_THREAD_STATE_BINDINGS;
  }
  at.bindings = at.task != 0 && at.locals == at.task + COROUTINE_LOCALS_AFTER_TASK ? at.task : 0;
  at.task_head = at.found & COROUTINE_THREAD_STATE_BINDINGS ? 0 : -1;
  *result = at;
}
