#ifndef CCOROUTINE_TESTS_H
#define CCOROUTINE_TESTS_H

#include <pthread.h>

// What a library in C does that has threads of its own.

/// Makes a thread that calls `callback` with `context` and ends. It is small and blocks all signals, as such threads often do.
/// 0, or an errno.
int coroutine_test_call_on_thread(pthread_t *thread, void (*callback)(void *context), void *context);

#endif
