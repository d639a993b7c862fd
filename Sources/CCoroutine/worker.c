// SPDX-License-Identifier: Apache-2.0

#include "worker.h"

#include <pthread.h>
#include <stdbool.h>

#include "CCoroutineSystem.h"
#include "current.h"

COROUTINE_THREAD_SLOT_DEFINE(coroutine_worker_slot, NULL);

static pthread_key_t lost_key;
static bool has_key;

static void call(void *lost) { ((void (*)(void))lost)(); }

static void make_key(void) { has_key = coroutine_system_create_key(&lost_key, call) == 0; }

void coroutine_pool_thread_begins(void (*lost)(void)) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_key);
  if (has_key) (void)pthread_setspecific(lost_key, (void *)lost);
}

void coroutine_pool_thread_returns(void) {
  if (has_key) (void)pthread_setspecific(lost_key, NULL);
}

static pthread_key_t inside_key;
static bool has_inside_key;

static void call_inside(void *lost) {
  if (coroutine_current() != NULL) call(lost);
}

static void make_inside_key(void) { has_inside_key = coroutine_system_create_key(&inside_key, call_inside) == 0; }

void coroutine_thread_runs_coroutines(void (*lost)(void)) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  static __thread bool is_known;
  if (is_known) return;
  is_known = true;
  pthread_once(&once, make_inside_key);
  if (has_inside_key) (void)pthread_setspecific(inside_key, (void *)lost);
}
