#ifndef CCOROUTINE_TESTS_H
#define CCOROUTINE_TESTS_H

#include <pthread.h>

// What a library in C does that has threads of its own.

/// Makes a thread that calls `callback` with `context` and ends. It is small and blocks all signals, as such threads often do.
/// 0, or an errno.
int coroutine_test_call_on_thread(pthread_t *thread, void (*callback)(void *context), void *context);

// A kernel that refuses calls, for tests in processes of their own: from here on those of all threads fail with `code`. 0, or an
// errno where the system has no such filters.

/// That give files new names.
int coroutine_test_refuse_renames(int code);
/// That close descriptors, which stay open.
int coroutine_test_refuse_closes(int code);
/// That send signals.
int coroutine_test_refuse_signals(int code);

/// From here on `fsync` on the calling thread does nothing; the first one says that a signal has interrupted it. 0, or an
/// errno.
int coroutine_test_interrupt_fsync(void);
/// How many there were.
int coroutine_test_fsync_count(void);

#endif
