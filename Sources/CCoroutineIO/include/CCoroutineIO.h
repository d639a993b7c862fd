// SPDX-License-Identifier: Apache-2.0

// System calls of input and output, for CoroutineIO. The functions answer with a result, or with a negated errno, so that no
// Swift code reads `errno`: a compiler may keep its address in a register while a coroutine changes threads.

#ifndef CCOROUTINE_IO_H
#define CCOROUTINE_IO_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "files.h"
#include "processes.h"
#include "signals.h"
#include "streams.h"

// Clang's words for what Swift imports as optional or not. Other compilers may build the .c files.
#if !defined(__clang__)
#define _Nonnull
#define _Nullable
#endif

/// A new epoll set, closed on exec.
int coroutine_io_epoll_create(void);

/// Enters a descriptor, with `data`: the set reports all its events, each once when it comes (EPOLLET). -EPERM for one
/// whose readiness the kernel does not report: a file of a disk, a folder, `/dev/null`. Or takes one out.
int coroutine_io_epoll_add(int set, int descriptor, uint64_t data);
int coroutine_io_epoll_remove(int set, int descriptor);

/// Enters an eventfd, which the set reports as long as it is not zero.
int coroutine_io_epoll_add_wake(int set, int descriptor, uint64_t data);

/// Waits for events, `nanoseconds` at most; a negative number: without a limit. Returns how many there are; 0 also where a
/// signal came; a negative errno where the kernel refuses.
int coroutine_io_epoll_wait(int set, struct epoll_event *_Nonnull events, int limit, int64_t nanoseconds);

/// What an event says.
static inline uint32_t coroutine_io_event_bits(const struct epoll_event *_Nonnull event) { return event->events; }
static inline uint64_t coroutine_io_event_data(const struct epoll_event *_Nonnull event) { return event->data.u64; }

/// Which of its bits stand for what: C libraries differ in the types of their names.
static const uint32_t coroutine_io_event_failed = EPOLLERR | EPOLLHUP;
static const uint32_t coroutine_io_event_readable = EPOLLIN | EPOLLRDHUP | EPOLLPRI;
static const uint32_t coroutine_io_event_writable = EPOLLOUT;
static const uint32_t coroutine_io_event_hung_up = EPOLLRDHUP | EPOLLPRI;

/// A new eventfd, not blocking, closed on exec; adding one to it; setting it back to zero. A negative errno where the
/// kernel refuses.
int coroutine_io_eventfd(void);
int coroutine_io_eventfd_add(int descriptor);
int coroutine_io_eventfd_clear(int descriptor);

/// Prepares a descriptor: not blocking, and closed on exec unless it is a standard stream (0 to 2). Where this fails it is as
/// before.
int coroutine_io_adopt(int descriptor);

/// Another descriptor of one of the process's standard streams (`number`), which does not block, while it goes on to block for
/// others that share it. (That of a socket may block, as those do.) A negated errno if it fails.
int coroutine_io_open_standard(int number, int mode);

/// Opens /dev/null as each standard stream that is closed. At the program's start.
void coroutine_io_fill_standard_numbers(void);

/// Whether a descriptor can be read from, or written to, without waiting: also at its end, with an error, and where the kernel
/// refuses to say.
bool coroutine_io_is_ready(int descriptor, bool to_write);

/// Closes; an interrupted call has closed too. A negated errno of a file says that bytes which were written have not reached
/// it; the number is given up in any case.
int coroutine_io_close(int descriptor);

/// `ECONNRESET` for its number; NULL if the number is none of an error, or the C library has no names.
const char *_Nullable coroutine_io_error_name(int code);

/// `errno` of the calling thread, after a call that said -1.
int coroutine_io_errno(void);

#endif
