// SPDX-License-Identifier: Apache-2.0

// The words of a coroutine where they are not simply exchanged: see swift_thread_state.h.
//
// Where a program without Swift loads all of this as a plug-in, the words lie elsewhere on each thread, and the C library says
// where: a call for each. All is as usual otherwise.
//
// Where the access word was not found, the runtime's own pair of functions takes the whole list off the thread and puts
// another one on, which may end with the one that was taken: slower, in time linear in the number of accesses, and with
// the same result. There is no such way for the other two: nothing exported sets the running task, or takes the
// bindings of code outside tasks away. Those words are then left alone, which is said at the first use, and a coroutine that
// suspends with a binding in force ends the program: the next one on its thread would have it.
//
// Bindings are inherited by copying them when a coroutine is created, as the runtime does for a new task. The coroutine
// then owns a storage of its own, made and freed by the runtime's push and pop, that no other code can see while the
// coroutine is suspended.
#include "swift_thread_state.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "sanitizer.h"
#include "swift_runtime.h"

struct swift_thread_state_offsets coroutine_thread_state_at __attribute__((aligned(64)));

static uintptr_t load_word(ptrdiff_t offset, const struct swift_thread_tls_index *index) {
  return offset != 0 ? coroutine_thread_word_load(offset) : *(uintptr_t *)coroutine_word_address(index);
}

static void store_word(ptrdiff_t offset, const struct swift_thread_tls_index *index, uintptr_t word) {
  if (offset != 0) {
    coroutine_thread_word_store(offset, word);
  } else {
    *(uintptr_t *)coroutine_word_address(index) = word;
  }
}

// Of a word that is known.
#define LOAD(at, word) load_word((at)->word, &(at)->word##_index)
#define STORE(at, word, value) store_word((at)->word, &(at)->word##_index, value)

static bool knows_bindings(const struct swift_thread_state_offsets *at) {
  return COROUTINE_KNOWS_WORD(at, task) && COROUTINE_KNOWS_WORD(at, locals);
}

// True where the program has switched Swift's checks off, so that there are no accesses.
extern bool _swift_disableExclusivityChecking __attribute__((weak));

static void report_missing(uint32_t found) {
  uint32_t bindings = COROUTINE_THREAD_STATE_TASK | COROUTINE_THREAD_STATE_LOCALS;
  if ((found & bindings) != bindings) {
    fputs("Coroutine: where this process's Swift runtime keeps a thread's task and its task-local values was not found. "
          "Coroutines inherit no task-local values, and must not suspend inside of TaskLocal.withValue, which ends the program.\n",
          stderr);
  }
  uint32_t accesses = COROUTINE_THREAD_STATE_ACCESS | COROUTINE_THREAD_STATE_ACCESS_LIST;
  bool are_checked = &_swift_disableExclusivityChecking == NULL || !_swift_disableExclusivityChecking;
  if ((found & accesses) != accesses && are_checked) {
    fputs("Coroutine: how this process's Swift runtime keeps a thread's accesses to variables was not found. Overlaps between a "
          "coroutine and the code that runs it may go unseen.\n",
          stderr);
  }
}

static void probe_once(void) {
  struct swift_thread_state_offsets at;
  coroutine_thread_state_probe(&at);
  report_missing(at.found);
  coroutine_thread_state_at.access_index = at.access_index;
  coroutine_thread_state_at.task_index = at.task_index;
  coroutine_thread_state_at.locals_index = at.locals_index;
  coroutine_thread_state_at.found = at.found;
  __atomic_store_n(&coroutine_thread_state_at.task_head, at.task_head, __ATOMIC_RELAXED);
  __atomic_store_n(&coroutine_thread_state_at.exceptions, at.exceptions, __ATOMIC_RELAXED);
  __atomic_store_n(&coroutine_thread_state_at.access, at.access, __ATOMIC_RELAXED);
  __atomic_store_n(&coroutine_thread_state_at.task, at.task, __ATOMIC_RELAXED);
  __atomic_store_n(&coroutine_thread_state_at.locals, at.locals, __ATOMIC_RELAXED);
  __atomic_store_n(&coroutine_thread_state_at.bindings, at.bindings, __ATOMIC_RELAXED);
}

// `coroutine_thread_state_at`, filled in.
static struct swift_thread_state_offsets *probed(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, probe_once);
  return &coroutine_thread_state_at;
}

static void probe_before_fork(void) { (void)probed(); }

// The probe starts threads, and asks the dynamic linker and the Swift runtime. In a child by fork it would wait for ever for a
// lock of theirs that another thread had at that moment. So it is made before the first fork, if no coroutine has run by then.
__attribute__((constructor)) static void keep_children_from_probing(void) {
  (void)pthread_atfork(probe_before_fork, NULL, NULL);
}

void coroutine_thread_state_forget_offsets(void) {
  struct swift_thread_state_offsets *at = probed();
  at->access = at->task = at->locals = at->bindings = 0;
}

void coroutine_thread_state_forget(uint32_t words) {
  struct swift_thread_state_offsets *at = probed();
  if (words & COROUTINE_THREAD_STATE_ACCESS) at->access = 0, at->access_index.module = 0;
  if (words & COROUTINE_THREAD_STATE_TASK) at->task = 0, at->task_index.module = 0, at->task_head = -1;
  if (words & COROUTINE_THREAD_STATE_LOCALS) at->locals = 0, at->locals_index.module = 0;
  if (words & (COROUTINE_THREAD_STATE_TASK | COROUTINE_THREAD_STATE_LOCALS)) {
    at->bindings = 0;
    words |= COROUTINE_THREAD_STATE_BINDINGS;
  }
  // Accesses stay with their coroutine all the same: the runtime exchanges them.
  at->found &= ~words | COROUTINE_THREAD_STATE_ACCESS;
  report_missing(at->found);
}

uint32_t coroutine_thread_state_found(void) { return probed()->found; }

ptrdiff_t coroutine_bindings_offset(void) { return probed()->bindings; }

#if !((defined(__x86_64__) || defined(__aarch64__)) && !defined(__ILP32__))

__attribute__((noinline)) uintptr_t coroutine_thread_word_load(ptrdiff_t offset) {
  return *(volatile uintptr_t *)((uintptr_t)__builtin_thread_pointer() + (uintptr_t)offset);
}

__attribute__((noinline)) void coroutine_thread_word_store(ptrdiff_t offset, uintptr_t word) {
  *(volatile uintptr_t *)((uintptr_t)__builtin_thread_pointer() + (uintptr_t)offset) = word;
}

#endif

// Exchange

static bool runtime_exchanges_accesses(void) {
  return swift_task_enterThreadLocalContext != NULL && swift_task_exitThreadLocalContext != NULL;
}

// The runtime's pair joins a task's list and the thread's. Leaving with an empty state takes the whole list, and
// entering a thread without one sets the list, whose last node then does not matter: this gives an exchange.
static uintptr_t exchange_accesses_by_runtime(uintptr_t head) {
  uintptr_t taken[2] = {0, 0}, given[2] = {head, 0};
  swift_task_exitThreadLocalContext(taken);
  swift_task_enterThreadLocalContext(given);
  return taken[0];
}

// The last access of a list that begins with `head` and goes on with `end`; NULL if there is none, or `end` does not come.
static struct access_node *last_access_before(uintptr_t head, uintptr_t end) {
  struct access_node *node = (struct access_node *)head;
  while (node != NULL && (uintptr_t)access_next(node) != end) node = (struct access_node *)access_next(node);
  return node;
}

static uintptr_t exchange_accesses(const struct swift_thread_state_offsets *at, struct swift_thread_state *words,
                                   uintptr_t head, bool enters) {
  uintptr_t other = words->access;
  // Without a known layout there is no tail: the resumer's accesses are then not seen by the coroutine.
  if ((enters ? head : other) == 0 || !(at->found & COROUTINE_THREAD_STATE_ACCESS_LIST)) {
    words->access = head;
    return other;
  }
  if (enters) {
    words->access = head;
    if (other == 0) return head;
    access_set_next(last_access_before(other, 0), head);
    return other;
  }
  if (head == other) {
    words->access = 0;
    return other;
  }
  struct access_node *last = last_access_before(head, other);
  if (last == NULL) {
    fputs("Fatal error: an access to a variable that the code around a coroutine had open has ended inside of the coroutine\n",
          stderr);
    abort();
  }
  access_set_next(last, 0);
  words->access = head;
  return other;
}

uintptr_t coroutine_accesses_exchange(struct swift_thread_state *words, uintptr_t head, bool enters) {
  return exchange_accesses(probed(), words, head, enters);
}

static void exchange_bindings(const struct swift_thread_state_offsets *at, struct swift_thread_state *words) {
  if (COROUTINE_KNOWS_WORD(at, task)) {
    uintptr_t task = LOAD(at, task);
    STORE(at, task, words->task);
    words->task = task;
  }
  if (COROUTINE_KNOWS_WORD(at, locals)) {
    uintptr_t locals = LOAD(at, locals);
    STORE(at, locals, words->locals);
    words->locals = locals;
  }
}

static uintptr_t latest_binding_by_runtime(void);

// Where they can't be exchanged, what was in force at a coroutine's resume has to be so again when it suspends.
static void check_bindings(struct swift_thread_state *words, bool enters) {
  uintptr_t latest = latest_binding_by_runtime();
  if (enters) {
    words->locals = latest;
  } else if (latest != words->locals) {
    fputs("Fatal error: a coroutine suspends inside of TaskLocal.withValue, and where this process's Swift runtime keeps a "
          "thread's task-local values was not found: whatever runs next on the thread would have the value\n",
          stderr);
    abort();
  } else {
    words->locals = 0;
  }
}

// Exceptions of C++. The address is asked for anew each time: that is a call, and only code that handles an exception
// makes it.

uintptr_t coroutine_exceptions_exchange(struct swift_thread_state *words) {
  struct exceptions *thread = coroutine_exceptions_of_thread();
  if (thread == NULL) return 0;
  struct exceptions taken = *thread;
  *thread = (struct exceptions){words->caught_exceptions, words->uncaught_exceptions};
  words->caught_exceptions = taken.caught;
  words->uncaught_exceptions = taken.uncaught;
  return (taken.caught | taken.uncaught) != 0 ? COROUTINE_EXCEPTIONS_SAVED : 0;
}

void coroutine_thread_state_exchange_at(const struct swift_thread_state_offsets *at, struct swift_thread_state *words,
                                        bool enters) {
  words->access &= ~COROUTINE_EXCEPTIONS_SAVED;
  uintptr_t saved = coroutine_exceptions_exchange(words);
  if (enters && (words->access & COROUTINE_ACCESSES_SHARED) != 0) coroutine_accesses_return(words);
  if (COROUTINE_KNOWS_WORD(at, access)) {
    STORE(at, access, exchange_accesses(at, words, LOAD(at, access), enters));
  } else if (runtime_exchanges_accesses()) {
    exchange_accesses_by_runtime(exchange_accesses(at, words, exchange_accesses_by_runtime(0), enters));
  }
  if (!enters && words->access != 0) coroutine_accesses_left(words);
  if (COROUTINE_KNOWS_WORD(at, locals)) {
    exchange_bindings(at, words);
  } else {
    check_bindings(words, enters);
  }
  words->access |= saved;
}

void coroutine_thread_state_exchange_slowly(struct swift_thread_state *words, bool enters) {
  coroutine_thread_state_exchange_at(probed(), words, enters);
}

// Accesses

static const struct access_node *latest_access(const struct swift_thread_state_offsets *at) {
  uintptr_t head = 0;
  if (COROUTINE_KNOWS_WORD(at, access)) {
    head = LOAD(at, access);
  } else if (runtime_exchanges_accesses()) {
    head = exchange_accesses_by_runtime(0);
    exchange_accesses_by_runtime(head);
  }
  return (const struct access_node *)head;
}

uintptr_t coroutine_access_word_load(void) { return (uintptr_t)latest_access(probed()); }

void coroutine_access_word_store(uintptr_t head) {
  const struct swift_thread_state_offsets *at = probed();
  if (COROUTINE_KNOWS_WORD(at, access)) {
    STORE(at, access, head);
  } else if (runtime_exchanges_accesses()) {
    exchange_accesses_by_runtime(head);
  }
}

bool coroutine_access_set_is_empty_at(const struct swift_thread_state_offsets *at) { return latest_access(at) == NULL; }

bool coroutine_access_set_is_empty_slowly(void) { return coroutine_access_set_is_empty_at(probed()); }

bool coroutine_access_set_touches_at(const struct swift_thread_state_offsets *at, const void *low, const void *high) {
  const struct access_node *node = latest_access(at);
  while (node != NULL) {
    // AddressSanitizer may keep a frame's variables on its heap: what counts is where the frame lies.
    const void *address = coroutine_sanitizer_real_address(node);
    if ((uintptr_t)address - (uintptr_t)low < (uintptr_t)high - (uintptr_t)low) return true;
    node = at->found & COROUTINE_THREAD_STATE_ACCESS_LIST ? access_next(node) : NULL;
  }
  return false;
}

bool coroutine_access_set_touches(const void *low, const void *high) {
  return coroutine_access_set_touches_at(probed(), low, high);
}

// Bindings

// The ABI gives a task object this many words; what the runtime keeps in them, it may change.
enum { TASK_WORDS = 24 };

static const char probe_key[16] __attribute__((aligned(16)));

uintptr_t coroutine_task_word_slowly(void) {
  const struct swift_thread_state_offsets *at = probed();
  return COROUTINE_KNOWS_WORD(at, task) ? LOAD(at, task) : 0;
}

// The newest binding here, by one that is put on top of it for a moment. 0 too if a binding does not look as expected.
static uintptr_t latest_binding_by_runtime(void) {
  intptr_t value = 1;
  swift_task_localValuePush(probe_key, &value, swift_int_type);
  uintptr_t bound = (uintptr_t)swift_task_localValueGet(probe_key);
  const struct binding *binding = (const struct binding *)(bound - binding_value_offset(swift_int_type));
  bool is_known = bound != 0 && binding->key == probe_key && binding->type == swift_int_type;
  uintptr_t latest = is_known ? (uintptr_t)binding_next(binding) : 0;
  swift_task_localValuePop();
  return latest;
}

// Looks for the head of a task's bindings in the task that runs here. While a binding is in force, the head is the one
// word that points to it. The runtime says where the binding lies, so nothing unknown is dereferenced.
static ptrdiff_t find_task_head(const uintptr_t *task) {
  uintptr_t before[TASK_WORDS];
  for (int i = 0; i < TASK_WORDS; i++) before[i] = __atomic_load_n(&task[i], __ATOMIC_RELAXED);

  intptr_t value = 1;
  swift_task_localValuePush(probe_key, &value, swift_int_type);
  uintptr_t bound = (uintptr_t)swift_task_localValueGet(probe_key);
  const struct binding *binding = (const struct binding *)(bound - binding_value_offset(swift_int_type));
  int head = -1;
  for (int i = 0; i < TASK_WORDS && bound != 0; i++) {
    if (__atomic_load_n(&task[i], __ATOMIC_RELAXED) == (uintptr_t)binding && before[i] != (uintptr_t)binding) head = i;
  }
  if (head >= 0 && !(binding->key == probe_key && binding->type == swift_int_type &&
                     (uintptr_t)binding_next(binding) == before[head])) {
    head = -1;
  }
  swift_task_localValuePop();

  if (head < 0 || __atomic_load_n(&task[head], __ATOMIC_RELAXED) != before[head]) return -1;
  return head * (ptrdiff_t)sizeof(uintptr_t);
}

// The newest binding here: the task's, or the thread's outside every task.
static const struct binding *latest_binding(struct swift_thread_state_offsets *at) {
  const uintptr_t *task = (const uintptr_t *)LOAD(at, task);
  if (task == NULL) {
    struct binding *const *storage = (struct binding *const *)LOAD(at, locals);
    return storage == NULL ? NULL : *storage;
  }
  // Several threads may look at once, each in its own task: they find the same.
  ptrdiff_t head = __atomic_load_n(&at->task_head, __ATOMIC_RELAXED);
  if (head == 0) {
    head = find_task_head(task);
    __atomic_store_n(&at->task_head, head, __ATOMIC_RELAXED);
  }
  return head < 0 ? NULL : *(const struct binding *const *)((const char *)task + head);
}

// Where `task` keeps its newest binding, NULL where that is not known.
static uintptr_t *task_head(struct swift_thread_state_offsets *at, uintptr_t task) {
  ptrdiff_t head = __atomic_load_n(&at->task_head, __ATOMIC_RELAXED);
  if (head == 0) {
    (void)latest_binding(at);  // looks for it
    head = __atomic_load_n(&at->task_head, __ATOMIC_RELAXED);
  }
  return head > 0 ? (uintptr_t *)(task + (uintptr_t)head) : NULL;
}

struct coroutine_bindings coroutine_bindings_load_slowly(void) {
  struct coroutine_bindings bindings = {0, 0, 0};
  struct swift_thread_state_offsets *at = probed();
  // They can't be changed then, only compared.
  if (!knows_bindings(at)) return (struct coroutine_bindings){0, 0, latest_binding_by_runtime()};
  uintptr_t task = LOAD(at, task);
  if (task != 0) {
    const uintptr_t *head = task_head(at, task);
    if (head != NULL && *head != 0) bindings = (struct coroutine_bindings){task, 0, *head};
    return bindings;
  }
  uintptr_t storage = LOAD(at, locals);
  if (storage != 0) bindings = (struct coroutine_bindings){0, storage, *(const uintptr_t *)storage};
  return bindings;
}

void coroutine_bindings_store(struct coroutine_bindings bindings) {
  struct swift_thread_state_offsets *at = probed();
  if (!knows_bindings(at)) {
    if (bindings.head == latest_binding_by_runtime()) return;
    fputs("Fatal error: a generator yields inside of TaskLocal.withValue, and where this process's Swift runtime keeps a "
          "thread's task-local values was not found: the generator's consumer would have the value\n",
          stderr);
    abort();
  }
  uintptr_t task = LOAD(at, task);
  if (task != 0) {
    uintptr_t *head = task_head(at, task);
    if (head != NULL) *head = bindings.head;
    return;
  }
  STORE(at, locals, bindings.storage);
  if (bindings.storage != 0) *(uintptr_t *)bindings.storage = bindings.head;
}

// The key of the first binding in a coroutine's storage, which no code looks up. The runtime frees a storage with its
// last binding. Where the last one's value binds and unbinds something in its `deinit`, that frees the storage while
// the outer pop still uses it: it reads freed memory and, where that reads zero, frees it again. With this one at the
// end, no value with a `deinit` is ever the last.
static const char floor_key[16] __attribute__((aligned(16)));

// Puts a copy of a value into the storage that is, or will be, a coroutine's.
static void push_copy(const struct swift_thread_state_offsets *at, struct swift_thread_state *words,
                      const struct binding *binding, void *source) {
  const struct value_witnesses *witnesses = witnesses_of(binding->type);
  size_t alignment = alignment_mask_of(binding->type) + 1;
  if (alignment < sizeof(void *)) alignment = sizeof(void *);
  void *copy;
  if (posix_memalign(&copy, alignment, witnesses->size) != 0) abort();
  witnesses->initialize_with_copy(copy, source, binding->type);

  exchange_bindings(at, words);
  if (LOAD(at, locals) == 0) {
    intptr_t nothing = 0;
    swift_task_localValuePush(floor_key, &nothing, swift_int_type);
  }
  swift_task_localValuePush(binding->key, copy, binding->type);
  exchange_bindings(at, words);
  free(copy);
}

void coroutine_thread_state_capture_at(struct swift_thread_state_offsets *at, struct swift_thread_state *words) {
  *words = (struct swift_thread_state){0};
  if (!(at->found & COROUTINE_THREAD_STATE_BINDINGS)) return;
  const struct binding *binding = latest_binding(at);
  for (; binding != NULL; binding = binding_next(binding)) {
    if (binding->next & BINDING_MARKER || binding->key == floor_key) continue;
    // What a newer binding of the same key or a stop hides, the runtime's lookup does not give.
    void *value = (char *)binding + binding_value_offset(binding->type);
    if (swift_task_localValueGet(binding->key) == value) push_copy(at, words, binding, value);
  }
}

uintptr_t coroutine_thread_state_capture_slowly(void) {
  struct swift_thread_state words;
  coroutine_thread_state_capture_at(probed(), &words);
  return words.locals;
}

void coroutine_thread_state_release_slowly(struct swift_thread_state *words) {
  const struct swift_thread_state_offsets *at = probed();
  if (!COROUTINE_KNOWS_WORD(at, locals)) return;  // none was inherited
  // Without a task, as the bindings were made: the runtime then pops them off the storage, and not off a task.
  exchange_bindings(at, words);
  while (LOAD(at, locals) != 0) swift_task_localValuePop();
  exchange_bindings(at, words);
}

uintptr_t coroutine_newest_access_of_its_own(const struct swift_thread_state *words) {
  if (!(coroutine_thread_state_found() & COROUTINE_THREAD_STATE_ACCESS)) return 0;
  uintptr_t newest = coroutine_access_word_load();
  // While it runs, its words have the first node of the resumer's list, which is the tail of the thread's.
  return newest != (words->access & ~COROUTINE_EXCEPTIONS_SAVED) ? newest : 0;
}

bool coroutine_access_is_open(uintptr_t access) {
  const struct access_node *node = (const struct access_node *)coroutine_access_word_load();
  if (!(coroutine_thread_state_found() & COROUTINE_THREAD_STATE_ACCESS_LIST)) return (uintptr_t)node == access;
  while (node != NULL && (uintptr_t)node != access) node = access_next(node);
  return node != NULL;
}

bool coroutine_has_accesses_of_its_own(const struct swift_thread_state *words) {
  if (!(coroutine_thread_state_found() & COROUTINE_THREAD_STATE_ACCESS)) return true;
  return coroutine_newest_access_of_its_own(words) != 0;
}
