// SPDX-License-Identifier: Apache-2.0

/// Functions of Linux that Swift cannot call: system calls behind the variadic `syscall`, constants that are newer than
/// the C library's headers, and one instruction. The functions answer with 0 or a count, or with a negated errno, so
/// that no caller reads `errno` itself: a compiler may keep its address in a register while a coroutine changes
/// threads.

#ifndef CCOROUTINE_SYSTEM_H
#define CCOROUTINE_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <sys/uio.h>
#include <time.h>

#if !defined(__linux__) || !defined(__LP64__)
#error "CCoroutineSystem is written for 64-bit Linux"
#endif

// Clang's words for what Swift imports as optional or not. Other compilers may build the .c file.
#if !defined(__clang__)
#define _Nonnull
#define _Nullable
#endif

/// `madvise` advice of Linux 6.13: a guard is a mark in the page table and costs no mapping of its own. It survives
/// MADV_DONTNEED, MADV_FREE and a fork; an access to it is a SIGSEGV with si_code SEGV_MAPERR.
enum {
  COROUTINE_SYSTEM_MADV_GUARD_INSTALL = 102,
  COROUTINE_SYSTEM_MADV_GUARD_REMOVE = 103,
};

/// A thread, as a word: C libraries differ in what `pthread_t` is.
typedef uintptr_t coroutine_system_thread;

/// Each starts a thread: one to be joined; a detached one; a detached one with a stack of another size than the usual. 0, or an
/// errno.
int coroutine_system_create_thread(coroutine_system_thread *_Nonnull thread,
                                   void *_Nullable (*_Nonnull body)(void *_Nullable), void *_Nullable argument);
int coroutine_system_start_thread(void *_Nullable (*_Nonnull body)(void *_Nullable), void *_Nullable argument);
int coroutine_system_start_thread_on(size_t stack_size, void *_Nullable (*_Nonnull body)(void *_Nullable),
                                     void *_Nullable argument);

/// Keeps the library that has `code` in memory until the process ends, if it is one that could be closed. Before `code` becomes
/// known to what may call it later than that: a thread, a signal's handler.
void coroutine_system_keep_loaded(const void *_Nonnull code);

/// A key of thread-locals. Its destructor may run at any later time, so the library stays loaded. 0, or an errno.
int coroutine_system_create_key(pthread_key_t *_Nonnull key, void (*_Nonnull at_end)(void *_Nullable));

void coroutine_system_join_thread(coroutine_system_thread thread);

/// The calling thread.
coroutine_system_thread coroutine_system_own_thread(void);

/// For tests: the next `count` calls of the functions that begin a thread are refused with EAGAIN.
void coroutine_system_refuse_threads(uint32_t count);

/// The number of forks between the first process that had this library loaded and this one. Threads that were started
/// under another number do not exist in this process.
extern uint32_t coroutine_system_forks;
static inline uint32_t coroutine_system_fork_count(void) { return __atomic_load_n(&coroutine_system_forks, __ATOMIC_RELAXED); }

/// Whether this process came of a fork and has one thread: no other thread will ever give anything back to it. A system
/// call in such a process, none elsewhere.
bool coroutine_system_is_lonely_child(void);

/// Informs the processor that the caller spins, so that a sibling hyperthread gets the execution units.
static inline void coroutine_system_relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  // `yield` is a no-op on most cores; `isb` really takes a few tens of cycles.
  __asm__ volatile("isb" ::: "memory");
#endif
}

/// Lets the processor fetch the line of memory at `address`, which will be needed soon. A guess: nothing depends on it,
/// and an address that is not mapped does no harm.
static inline void coroutine_system_prefetch(const void *_Nullable address) { __builtin_prefetch(address); }

/// Sleeps while `*address` is `expected`, until a wake or until `deadline` (absolute, CLOCK_MONOTONIC; NULL waits for
/// ever). Returns 0 after a wake, or -EAGAIN (the value differed), -EINTR, -ETIMEDOUT. A wake may be spurious.
/// Any other refusal ends the program with a message: the caller would look again for ever.
/// `is_idle`: the end of this wait makes nothing happen in the program.
int coroutine_system_futex_wait(const uint32_t *_Nonnull address, uint32_t expected, const struct timespec *_Nullable deadline,
                       bool is_idle);

/// An argument that the system call behind `coroutine_system_futex_wait` ignores: it shows a debugger that looks at a
/// thread from outside that this one is idle.
const void *_Nonnull coroutine_system_idle_mark(void);

/// How many of these words are 0 before the first that is not. Reads what others may be writing.
size_t coroutine_system_zero_words(const uintptr_t *_Nonnull words, size_t count);

/// Wakes at most `count` threads that wait on `address` and returns how many. The address is used as a name only: it
/// may have been freed in the meantime. A refusal ends the program with a message: the sleepers would sleep for ever.
int coroutine_system_futex_wake(const uint32_t *_Nonnull address, uint32_t count);

/// Names the calling thread, for debuggers and `top`: 15 characters at most.
void coroutine_system_name_thread(const char *_Nonnull name);

/// The calling thread's number, as the kernel counts, and its name: 16 bytes with the zero.
int coroutine_system_thread_id(void);
void coroutine_system_get_thread_name(char *_Nonnull name);

/// Makes the calling thread's timeouts end when they are due. By default the kernel may delay them by up to 50 us, so
/// that it can bundle the wakes of several threads.
void coroutine_system_precise_timeouts(void);

/// `sem_wait`, but no longer than until `deadline` (absolute, CLOCK_MONOTONIC): then -ETIMEDOUT.
int coroutine_system_semaphore_wait(sem_t *_Nonnull semaphore, const struct timespec *_Nonnull deadline);

/// Registers this process for `coroutine_system_membarrier`; once is enough, again is harmless. -ENOSYS or -EPERM where the
/// kernel or a sandbox refuses.
int coroutine_system_membarrier_register(void);

/// A full memory barrier on every running thread of this process: the expensive half of an asymmetric fence, whose
/// cheap half is a compiler barrier. -EPERM before the registration.
int coroutine_system_membarrier(void);

/// Makes the C library keep twice as many bytes of freed memory at the end of each of its heaps, if it kept less so
/// far, rather than give them to the kernel and fault them in again. At most 32 MiB; without effect where it is not
/// glibc.
void coroutine_system_keep_freed_memory(size_t bytes);

/// Gives freed memory back to the kernel from anywhere in the C library's heaps, where the library was set above what to
/// keep: a program that leaves it alone is left alone. Locks each heap for as long as its free blocks need, about 0.3 ms a
/// MiB. Without effect where it is not glibc.
void coroutine_system_give_back_freed_memory(void);

/// `madvise(advice)` for each of `count` ranges of this process, in one system call where the kernel allows it
/// (process_madvise on oneself, Linux 6.14). Returns 0, or the negated errno of the first range that failed; `*done` is
/// the number of ranges before it.
int coroutine_system_madvise_ranges(
    const struct iovec *_Nonnull ranges, size_t count, int advice, size_t *_Nonnull done);

#endif
