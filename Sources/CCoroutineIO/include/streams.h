// SPDX-License-Identifier: Apache-2.0

// System calls of streams that Swift cannot call, or must not call as they are.
#ifndef COROUTINE_IO_STREAMS_H
#define COROUTINE_IO_STREAMS_H

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

// What `socket` takes for a type: C libraries differ in the types of their names.
static const int coroutine_io_stream = SOCK_STREAM;
static const int coroutine_io_datagrams = SOCK_DGRAM;
// To be added to those: it does not block, and is closed by exec.
static const int coroutine_io_socket_flags = SOCK_NONBLOCK | SOCK_CLOEXEC;

// accept4: the new socket does not block, and is closed by exec.
int coroutine_io_accept(int listener, struct sockaddr *address, socklen_t *length);

// pipe2: neither end blocks, and both are closed by exec.
int coroutine_io_pipe(int ends[2]);

// writev that never raises SIGPIPE, whatever the program does with that signal. For descriptors that are not sockets:
// those have a flag.
ssize_t coroutine_io_write_quietly(int descriptor, const struct iovec *pieces, int count);

// -1, with `errno` set: for code that reports a failure in place of a system call.
int coroutine_io_fail(int code);

#endif
