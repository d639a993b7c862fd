// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE  // IOV_MAX, pthread_setname_np, sem_clockwait

#include "CCoroutineSystem.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic uint32_t refusals;

void coroutine_system_refuse_threads(uint32_t count) { atomic_store(&refusals, count); }

// A library that stays, or the program: where it lies in memory. Never freed.
struct kept_library {
  const char *from, *end;
  struct kept_library *next;
};

static _Atomic(struct kept_library *) kept_libraries;

static bool is_kept(const char *code) {
  struct kept_library *known = atomic_load_explicit(&kept_libraries, memory_order_acquire);
  for (; known != NULL; known = known->next) {
    if (known->from <= code && code < known->end) return true;
  }
  return false;
}

// Where the library that begins at `base` ends, by its own headers, as linkers lay them out; `base` if it has none there. (By
// `dl_iterate_phdr` a child of fork would need a lock that another thread of its parent's may have held.)
static const char *end_of_library(const char *base) {
  const ElfW(Ehdr) *header = (const void *)base;
  if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return base;
  if (header->e_phoff + header->e_phnum * sizeof(ElfW(Phdr)) > (size_t)sysconf(_SC_PAGESIZE)) return base;
  const ElfW(Phdr) *segments = (const void *)(base + header->e_phoff);
  size_t first = SIZE_MAX, end = 0;
  for (size_t i = 0; i < header->e_phnum; i++) {
    if (segments[i].p_type != PT_LOAD) continue;
    if (segments[i].p_vaddr < first) first = segments[i].p_vaddr;
    if (segments[i].p_vaddr + segments[i].p_memsz > end) end = segments[i].p_vaddr + segments[i].p_memsz;
  }
  return end > first ? base + (end - first) : base;
}

void coroutine_system_keep_loaded(const void *code) {
  // To look a library up takes the dynamic linker's lock. A `dlopen` may hold that while one of the library's constructors
  // blocks for a coroutine. So it is done once, by the thread that begins the first of the runtime's, and not by these.
  if (is_kept(code)) return;
  struct kept_library *added = malloc(sizeof *added);
  if (added == NULL) return;
  // What can't be found, as in a program without a dynamic linker, is known by this address only.
  *added = (struct kept_library){code, (const char *)code + 1, NULL};
  // The program may have each module of this package in a library of its own: it is asked for the one of this code.
  Dl_info library;
  if (dladdr(code, &library) != 0 && library.dli_fname != NULL) {
    // Kept for as long as the process lasts: the handle is of no other use.
    (void)dlopen(library.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    const char *end = end_of_library(library.dli_fbase);
    if ((const char *)code < end) *added = (struct kept_library){library.dli_fbase, end, NULL};
  }
  added->next = atomic_load_explicit(&kept_libraries, memory_order_relaxed);
  while (!atomic_compare_exchange_weak(&kept_libraries, &added->next, added)) {}
}

int coroutine_system_create_key(pthread_key_t *key, void (*at_end)(void *)) {
  coroutine_system_keep_loaded((const void *)at_end);
  return pthread_key_create(key, at_end);
}

static int create_thread(pthread_t *thread, size_t stack_size, void *(*body)(void *), void *argument) {
  uint32_t left = atomic_load_explicit(&refusals, memory_order_relaxed);
  while (left > 0) {
    if (atomic_compare_exchange_weak(&refusals, &left, left - 1)) return EAGAIN;
  }
  coroutine_system_keep_loaded((const void *)body);
  pthread_attr_t attributes;
  int error = pthread_attr_init(&attributes);
  if (error != 0) return error;
  if (stack_size != 0) error = pthread_attr_setstacksize(&attributes, stack_size);
  if (error == 0) error = pthread_create(thread, &attributes, body, argument);
  pthread_attr_destroy(&attributes);
  return error;
}

int coroutine_system_create_thread(coroutine_system_thread *thread, void *(*body)(void *), void *argument) {
  pthread_t created;
  int error = create_thread(&created, 0, body, argument);
  if (error == 0) *thread = (coroutine_system_thread)created;
  return error;
}

int coroutine_system_start_thread(void *(*body)(void *), void *argument) {
  return coroutine_system_start_thread_on(0, body, argument);
}

int coroutine_system_start_thread_on(size_t stack_size, void *(*body)(void *), void *argument) {
  pthread_t created;
  int error = create_thread(&created, stack_size, body, argument);
  if (error == 0) pthread_detach(created);
  return error;
}

void coroutine_system_join_thread(coroutine_system_thread thread) { (void)pthread_join((pthread_t)thread, NULL); }

coroutine_system_thread coroutine_system_own_thread(void) { return (coroutine_system_thread)pthread_self(); }

uint32_t coroutine_system_forks = 0;

static void count_fork(void) { __atomic_fetch_add(&coroutine_system_forks, 1, __ATOMIC_RELAXED); }

// Before any other handler of the runtime's: a child runs them in the order in which they were registered.
__attribute__((constructor(101))) static void count_forks(void) { (void)pthread_atfork(NULL, NULL, count_fork); }

bool coroutine_system_is_lonely_child(void) {
  if (coroutine_system_fork_count() == 0) return false;
  // A folder's links: itself, its name, and one for each folder in it, of which there is one for each thread.
  struct stat threads;
  return stat("/proc/self/task", &threads) == 0 && threads.st_nlink == 3;
}

static const char idle_mark;

const void *coroutine_system_idle_mark(void) { return &idle_mark; }

// A sleep that does not last, or a wake that reaches no sleeper: the program would spin or hang, and not say why.
__attribute__((cold, noreturn)) static void futex_refused(const char *operation, int code) {
  dprintf(2, "Fatal error: Coroutine: futex(%s) was refused: %s (errno %d). A sandbox's filter must allow futex(2).\n",
          operation, strerror(code), code);
  __builtin_trap();
}

int coroutine_system_futex_wait(const uint32_t *address, uint32_t expected, const struct timespec *deadline, bool is_idle) {
  // FUTEX_WAIT takes a relative time; the bitset form an absolute one, which an EINTR does not lengthen.
  long result = syscall(SYS_futex, address, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, expected, deadline,
                        is_idle ? coroutine_system_idle_mark() : NULL, FUTEX_BITSET_MATCH_ANY);
  if (result == 0) return 0;
  if (errno != EAGAIN && errno != EINTR && errno != ETIMEDOUT) futex_refused("FUTEX_WAIT_BITSET", errno);
  return -errno;
}

int coroutine_system_futex_wake(const uint32_t *address, uint32_t count) {
  int most = count > INT_MAX ? INT_MAX : (int)count;
  long result = syscall(SYS_futex, address, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, most, NULL, NULL, 0);
  if (result < 0) futex_refused("FUTEX_WAKE", errno);
  return (int)result;
}

void coroutine_system_name_thread(const char *name) { (void)pthread_setname_np(pthread_self(), name); }

int coroutine_system_thread_id(void) { return (int)syscall(SYS_gettid); }

void coroutine_system_get_thread_name(char *name) {
  if (pthread_getname_np(pthread_self(), name, 16) != 0) name[0] = 0;
}

// 1 ns: 0 would mean the default. A refusal costs precision only.
void coroutine_system_precise_timeouts(void) { (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); }

#if defined(__GLIBC__)

// ThreadSanitizer knows `sem_post`, but not `sem_clockwait`: without this it would not know that what the poster has done comes
// before the waiter goes on. Weak: NULL in programs without it.
extern void __tsan_acquire(void *address) __attribute__((weak));

int coroutine_system_semaphore_wait(sem_t *semaphore, const struct timespec *deadline) {
  while (sem_clockwait(semaphore, CLOCK_MONOTONIC, deadline) != 0) {
    if (errno != EINTR) return -errno;
  }
  if (__tsan_acquire != NULL) __tsan_acquire(semaphore);
  return 0;
}

#else

// By the clock that can be set: a second at most, so that a change of it delays no deadline for longer.
int coroutine_system_semaphore_wait(sem_t *semaphore, const struct timespec *deadline) {
  while (true) {
    struct timespec now, until;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t left = (deadline->tv_sec - now.tv_sec) * INT64_C(1000000000) + (deadline->tv_nsec - now.tv_nsec);
    if (left > 1000000000) left = 1000000000;
    clock_gettime(CLOCK_REALTIME, &until);
    int64_t nanoseconds = until.tv_nsec + (left > 0 ? left : 0);
    until.tv_sec += nanoseconds / 1000000000;
    until.tv_nsec = nanoseconds % 1000000000;
    if (sem_timedwait(semaphore, &until) == 0) return 0;
    if (errno != EINTR && errno != ETIMEDOUT) return -errno;
    if (left <= 0) return -ETIMEDOUT;
  }
}

#endif

int coroutine_system_membarrier_register(void) {
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0 ? 0 : -errno;
}

int coroutine_system_membarrier(void) {
  return syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0 ? 0 : -errno;
}

// When glibc frees a block that had a mapping of its own, it takes its size for one that comes and goes: from then on
// it keeps up to twice as much at the end of a heap. The default is 128 KiB. (Setting that by `mallopt` would also end
// the adjustment.)
static _Atomic bool isMallocAdjusted;

void coroutine_system_keep_freed_memory(size_t bytes) {
  atomic_store_explicit(&isMallocAdjusted, true, memory_order_relaxed);
  // A block of more than 32 MiB, with its header in whole pages, says nothing to it.
  size_t most = ((size_t)32 << 20) - 2 * (size_t)sysconf(_SC_PAGESIZE);
  if (bytes > most) bytes = most;
  void *block = malloc(bytes);
  __asm__ volatile("" : : "r"(block) : "memory");  // or a compiler leaves out both calls
  free(block);
}

// glibc by itself gives back only what lies at the end of its last heap, and there a small block of any code may live on.
void coroutine_system_give_back_freed_memory(void) {
#ifdef __GLIBC__
  if (atomic_load_explicit(&isMallocAdjusted, memory_order_relaxed)) malloc_trim(0);
#endif
}

// Linux 6.14 takes this in place of a pidfd of the caller. A real pidfd would be one more open file, and after a fork
// the child's copy of it would name the parent.
enum { PIDFD_OF_THIS_PROCESS = -10001 };

// Set at the first sign that the kernel or a sandbox refuses process_madvise on the own process: that does not change
// later.
static _Atomic bool vectorRefused;

int coroutine_system_madvise_ranges(const struct iovec *ranges, size_t count, int advice, size_t *done) {
  size_t finished = 0;
  while (finished < count && !atomic_load_explicit(&vectorRefused, memory_order_relaxed)) {
    size_t batch = count - finished < IOV_MAX ? count - finished : IOV_MAX;
    long advised = syscall(SYS_process_madvise, PIDFD_OF_THIS_PROCESS, ranges + finished, batch, advice, 0);
    if (advised < 0) {
      if (errno == EBADF || errno == ENOSYS || errno == EPERM)
        atomic_store_explicit(&vectorRefused, true, memory_order_relaxed);
      break;
    }
    // The answer is in bytes and may end early: count the whole ranges, the next one is done again from its beginning.
    size_t before = finished;
    for (size_t left = (size_t)advised; finished < count && ranges[finished].iov_len <= left; finished++)
      left -= ranges[finished].iov_len;
    if (finished == before) break;
  }
  // One at a time: on a kernel without the call above, and to learn why it stopped.
  for (; finished < count; finished++) {
    if (madvise(ranges[finished].iov_base, ranges[finished].iov_len, advice) != 0) {
      *done = finished;
      return -errno;
    }
  }
  *done = finished;
  return 0;
}

// Words of a stack: a sanitizer knows whose they are, and would object.
#if defined(__clang__)
__attribute__((disable_sanitizer_instrumentation, noinline))
#endif
size_t coroutine_system_zero_words(const uintptr_t *words, size_t count) {
  const volatile uintptr_t *word = words;
  size_t zeros = 0;
  while (zeros < count && word[zeros] == 0) zeros++;
  return zeros;
}
