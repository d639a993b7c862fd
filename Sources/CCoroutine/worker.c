// SPDX-License-Identifier: Apache-2.0

#include "worker.h"

#include <pthread.h>
#include <stdbool.h>

#include "CCoroutineSystem.h"
#include "current.h"

COROUTINE_THREAD_SLOT_DEFINE(coroutine_worker_slot, NULL);

static pthread_key_t lost_key, inside_key;
static bool has_lost_key, has_inside_key;

static void call(void *lost) { ((void (*)(void))lost)(); }

static void call_inside(void *lost) {
  if (coroutine_current() != NULL) call(lost);
}

static void make_keys(void) {
  has_lost_key = coroutine_system_create_key(&lost_key, call) == 0;
  has_inside_key = coroutine_system_create_key(&inside_key, call_inside) == 0;
}

void coroutine_make_thread_keys(void) {
  // First, and with nothing held that a library's constructor could wait for: it takes the dynamic linker's lock.
  coroutine_system_keep_loaded((const void *)call);
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_keys);
}

void coroutine_pool_thread_begins(void (*lost)(void)) {
  coroutine_make_thread_keys();
  if (has_lost_key) (void)pthread_setspecific(lost_key, (void *)lost);
}

void coroutine_pool_thread_returns(void) {
  if (has_lost_key) (void)pthread_setspecific(lost_key, NULL);
}

void coroutine_thread_runs_coroutines(void (*lost)(void)) {
  static __thread bool is_known;
  if (is_known) return;
  is_known = true;
  coroutine_make_thread_keys();
  if (has_inside_key) (void)pthread_setspecific(inside_key, (void *)lost);
}
