// SPDX-License-Identifier: Apache-2.0

#include "shared_accesses.h"

#include <stdio.h>
#include <stdlib.h>

#include "swift_runtime.h"

// A domain runs on one thread after another. What orders these, such as a Dispatch queue, no sanitizer sees: so the functions
// that touch a chain are not instrumented.

// The accesses of one suspended coroutine, between two nodes that are none.
struct left_accesses {
  struct access_node begin;
  struct access_node end;
  struct coroutine_shared_accesses *chain;
  // In the chain the newest come first.
  struct left_accesses *newer;
  struct left_accesses *older;
};

struct coroutine_shared_accesses {
  struct access_node first;
  struct access_node last;
  struct left_accesses *newest;
  uint32_t count;
  uint32_t limit;
  bool is_attached;
};

uint32_t coroutine_shared_accesses_count;

// A node of the chain that is no access is marked by an address that no variable has: its own.
static inline __attribute__((always_inline)) bool is_mark(const struct access_node *node) { return node->address == node; }

static inline __attribute__((always_inline)) struct access_node mark_at(const struct access_node *address, uintptr_t next) {
  return (struct access_node){.address = address, .next = next};
}

static _Noreturn void report_lost(void) {
  fputs("Fatal error: the list of a thread's accesses to variables has lost those of suspended coroutines\n", stderr);
  abort();
}

// The node before `next` in a list that begins with `node` and has it.
NOT_INSTRUMENTED static struct access_node *node_before(uintptr_t next, struct access_node *node) {
  while (node != NULL && (uintptr_t)access_next(node) != next) node = (struct access_node *)access_next(node);
  if (node == NULL) report_lost();
  return node;
}

// The last access of a suspended coroutine, whose accesses begin with `node`.
NOT_INSTRUMENTED static struct access_node *last_own(struct access_node *node) {
  for (;;) {
    struct access_node *next = (struct access_node *)access_next(node);
    if (next == NULL || is_mark(next)) return node;
    node = next;
  }
}

struct coroutine_shared_accesses *coroutine_shared_accesses_create(uint32_t limit) {
  struct coroutine_shared_accesses *chain = calloc(1, sizeof *chain);
  if (chain == NULL) return NULL;
  chain->first = mark_at(&chain->first, (uintptr_t)&chain->last);
  chain->last = mark_at(&chain->last, 0);
  chain->limit = limit;
  return chain;
}

NOT_INSTRUMENTED void coroutine_shared_accesses_destroy(struct coroutine_shared_accesses *chain) {
  if (chain != NULL && chain->newest == NULL && !chain->is_attached) free(chain);
}

// Entering and leaving: see swift_thread_state.h.

NOT_INSTRUMENTED void coroutine_accesses_left(struct swift_thread_state *words) {
  if (!(coroutine_thread_state_found() & COROUTINE_THREAD_STATE_ACCESS_LIST)) return;
  if (coroutine_current_shared_accesses == NULL) return;
  struct coroutine_shared_accesses *chain = coroutine_current_shared_accesses();
  if (chain == NULL || chain->count == chain->limit) return;
  // Without memory the accesses go unseen, as those of any other coroutine.
  struct left_accesses *left = malloc(sizeof *left);
  if (left == NULL) return;
  struct access_node *head = (struct access_node *)words->access;
  left->begin = mark_at(&left->begin, (uintptr_t)head);
  left->end = mark_at(&left->end, (uintptr_t)access_next(&chain->first));
  left->chain = chain;
  left->newer = NULL;
  left->older = chain->newest;
  access_set_next(last_own(head), (uintptr_t)&left->end);
  access_set_next(&chain->first, (uintptr_t)&left->begin);
  if (chain->newest != NULL) chain->newest->newer = left;
  chain->newest = left;
  chain->count += 1;
  words->access |= COROUTINE_ACCESSES_SHARED;
  __atomic_add_fetch(&coroutine_shared_accesses_count, 1, __ATOMIC_RELAXED);
}

NOT_INSTRUMENTED void coroutine_accesses_return(struct swift_thread_state *words) {
  words->access -= COROUTINE_ACCESSES_SHARED;
  struct access_node *last = last_own((struct access_node *)words->access);
  const struct access_node *end = access_next(last);
  if (end == NULL) report_lost();
  struct left_accesses *left = (struct left_accesses *)((char *)end - offsetof(struct left_accesses, end));
  struct coroutine_shared_accesses *chain = left->chain;
  access_set_next(left->newer != NULL ? &left->newer->end : &chain->first, (uintptr_t)access_next(end));
  access_set_next(last, 0);
  if (left->newer != NULL) left->newer->older = left->older;
  else chain->newest = left->older;
  if (left->older != NULL) left->older->newer = left->newer;
  chain->count -= 1;
  free(left);
  __atomic_sub_fetch(&coroutine_shared_accesses_count, 1, __ATOMIC_RELAXED);
}

bool coroutine_runs_on_executor(void) { return swift_task_getCurrentExecutor().identity != NULL; }

// While a domain's coroutines have their turns

NOT_INSTRUMENTED bool coroutine_shared_accesses_are_attached(const struct coroutine_shared_accesses *chain) {
  return chain->is_attached;
}

NOT_INSTRUMENTED void coroutine_shared_accesses_attach(struct coroutine_shared_accesses *chain) {
  if (chain->is_attached || chain->newest == NULL) return;
  chain->is_attached = true;
  access_set_next(&chain->last, coroutine_access_word_load());
  coroutine_access_word_store((uintptr_t)&chain->first);
}

NOT_INSTRUMENTED void coroutine_shared_accesses_attach_behind(struct coroutine_shared_accesses *chain,
                                                              struct swift_thread_state *words) {
  if (chain->is_attached || chain->newest == NULL) return;
  chain->is_attached = true;
  uintptr_t bits = words->access & COROUTINE_EXCEPTIONS_SAVED;
  uintptr_t resumers = words->access - bits;
  access_set_next(&chain->last, resumers);
  words->access = (uintptr_t)&chain->first | bits;
  uintptr_t head = coroutine_access_word_load();
  if (head == resumers) {
    coroutine_access_word_store((uintptr_t)&chain->first);
  } else {
    access_set_next(node_before(resumers, (struct access_node *)head), (uintptr_t)&chain->first);
  }
}

NOT_INSTRUMENTED void coroutine_shared_accesses_detach(struct coroutine_shared_accesses *chain) {
  if (!chain->is_attached) return;
  chain->is_attached = false;
  uintptr_t around = (uintptr_t)access_next(&chain->last);
  access_set_next(&chain->last, 0);
  uintptr_t head = coroutine_access_word_load();
  if (head == (uintptr_t)&chain->first) {
    coroutine_access_word_store(around);
  } else {
    access_set_next(node_before((uintptr_t)&chain->first, (struct access_node *)head), around);
  }
}
