// SPDX-License-Identifier: Apache-2.0

#include "shared_accesses.h"

#include <stdio.h>
#include <stdlib.h>

#include "swift_runtime.h"

// Threads take turns as the main actor's. What orders their turns, a queue of Dispatch's, no sanitizer sees.

// A node of the chain that is no access tells so by an address that no variable has: its own.
static inline __attribute__((always_inline)) bool is_mark(const struct access_node *node) { return node->address == node; }

static struct access_node last = {.address = &last};
static struct access_node first = {.address = &first, .next = (uintptr_t)&last};
static bool is_attached;

uint32_t coroutine_shared_accesses_count;

static void set_count(uint32_t count) { __atomic_store_n(&coroutine_shared_accesses_count, count, __ATOMIC_RELAXED); }

// The node before `next` in a list that begins with `node` and has it.
NOT_INSTRUMENTED static struct access_node *node_before(uintptr_t next, struct access_node *node) {
  while (node != NULL && (uintptr_t)access_next(node) != next) node = (struct access_node *)access_next(node);
  if (node != NULL) return node;
  fputs("Fatal error: the list of a thread's accesses to variables has lost those of coroutines of the main actor\n", stderr);
  abort();
}

// The last access of a suspended coroutine, whose accesses begin with `node`.
NOT_INSTRUMENTED static struct access_node *last_own(struct access_node *node) {
  for (;;) {
    struct access_node *next = (struct access_node *)access_next(node);
    if (next == NULL || is_mark(next)) return node;
    node = next;
  }
}

// Entering and leaving: see swift_thread_state.h.

NOT_INSTRUMENTED void coroutine_accesses_left(struct swift_thread_state *words) {
  if (!(coroutine_thread_state_found() & COROUTINE_THREAD_STATE_ACCESS_LIST)) return;
  if (coroutine_belongs_to_main_actor == NULL || !coroutine_belongs_to_main_actor()) return;
  // Without memory the accesses go unseen, as those of any other coroutine.
  struct access_node *mark = malloc(sizeof *mark);
  if (mark == NULL) return;
  struct access_node *head = (struct access_node *)words->access;
  *mark = (struct access_node){.address = mark, .next = (uintptr_t)head};
  access_set_next(last_own(head), (uintptr_t)access_next(&first));
  access_set_next(&first, (uintptr_t)mark);
  words->access |= COROUTINE_ACCESSES_SHARED;
  set_count(coroutine_shared_accesses_count + 1);
}

NOT_INSTRUMENTED void coroutine_accesses_return(struct swift_thread_state *words) {
  words->access -= COROUTINE_ACCESSES_SHARED;
  struct access_node *mark = node_before(words->access, &first);
  struct access_node *end = last_own((struct access_node *)words->access);
  access_set_next(node_before((uintptr_t)mark, &first), (uintptr_t)access_next(end));
  access_set_next(end, 0);
  free(mark);
  set_count(coroutine_shared_accesses_count - 1);
}

// Turns

NOT_INSTRUMENTED bool coroutine_shared_accesses_are_attached(void) { return is_attached; }

NOT_INSTRUMENTED void coroutine_shared_accesses_attach(void) {
  if (is_attached) return;
  is_attached = true;
  access_set_next(&last, coroutine_access_word_load());
  coroutine_access_word_store((uintptr_t)&first);
}

NOT_INSTRUMENTED void coroutine_shared_accesses_attach_behind(struct swift_thread_state *words) {
  if (is_attached) return;
  is_attached = true;
  uintptr_t bits = words->access & COROUTINE_EXCEPTIONS_SAVED;
  uintptr_t resumers = words->access - bits;
  access_set_next(&last, resumers);
  words->access = (uintptr_t)&first | bits;
  uintptr_t head = coroutine_access_word_load();
  if (head == resumers) {
    coroutine_access_word_store((uintptr_t)&first);
  } else {
    access_set_next(node_before(resumers, (struct access_node *)head), (uintptr_t)&first);
  }
}

NOT_INSTRUMENTED void coroutine_shared_accesses_detach(void) {
  if (!is_attached) return;
  is_attached = false;
  uintptr_t around = (uintptr_t)access_next(&last);
  access_set_next(&last, 0);
  uintptr_t head = coroutine_access_word_load();
  if (head == (uintptr_t)&first) {
    coroutine_access_word_store(around);
  } else {
    access_set_next(node_before((uintptr_t)&first, (struct access_node *)head), around);
  }
}
