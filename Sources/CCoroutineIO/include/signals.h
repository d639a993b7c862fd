// SPDX-License-Identifier: Apache-2.0

// Signals that a program receives as values.
#ifndef COROUTINE_IO_SIGNALS_H
#define COROUTINE_IO_SIGNALS_H

#include <stdbool.h>

// From here on each signal that comes is recorded, and a byte is written to `wake`, which does not block. Before the
// first `catch`, once.
void coroutine_io_signals_begin(int wake);

// Notes a signal instead of what it did before. -1 with `errno`.
int coroutine_io_signal_catch(int number);

// Lets a signal do again what it did before `catch`, unless other code has given it another handler since. Returns whether one
// that has come without being caught is to be raised again.
bool coroutine_io_signal_release(int number);

// 0: the signal has not come since the last call; 1: it has; 2: it has, though it was not caught: other code had saved the
// handler, and has put it back.
int coroutine_io_signal_take(int number);

// Sends it to the own process.
void coroutine_io_signal_raise(int number);

// The highest number of a signal.
int coroutine_io_signal_last(void);

#endif
