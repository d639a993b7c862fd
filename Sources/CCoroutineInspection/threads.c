// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE 1
#include "parts.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>

// All threads are stopped, so that the contents of the memory belong together. By PTRACE_SEIZE, not ATTACH: it sends no
// signal, the process does not learn of it, and it goes on by itself if this process is killed.

static bool is_known(const struct target *target, pid_t thread) {
  for (size_t i = 0; i < target->thread_count; i++)
    if (target->threads[i].id == thread) return true;
  return false;
}

// MARK: Threads out of reach

// A thread that waits in the kernel for a child by vfork, or for a disk, stops only when that is over, which may be
// never. Until then all threads that have stopped already would stand still.
enum { stop_milliseconds = 1000 };

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

// Lets some time pass: more of it each time.
static void pause_briefly(int *times) {
  if ((*times)++ < 100) sched_yield();
  else nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

static bool is_out_of_reach(pid_t process, pid_t thread) {
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/%d/task/%d/stat", process, thread);
  FILE *file = fopen(path, "re");
  if (!file) return false;
  size_t count = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[count] = 0;
  // Behind the name, in which there may be anything.
  const char *end = strrchr(text, ')');
  return end && strncmp(end, ") D", 3) == 0;
}

// Waits until all threads can be reached, before any is stopped: no thread stands still for it. False if one can't in
// time.
static bool wait_for_reach(pid_t process) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/task", process);
  DIR *tasks = opendir(path);
  if (!tasks) return true;
  bool are_all = true;
  struct dirent *entry;
  while (are_all && (entry = readdir(tasks))) {
    pid_t thread = (pid_t)atoi(entry->d_name);
    int times = 0;
    int64_t deadline = now() + stop_milliseconds;
    while (thread > 0 && (are_all = !is_out_of_reach(process, thread), !are_all) && now() < deadline)
      pause_briefly(&times);
  }
  closedir(tasks);
  return are_all;
}

// Waits until a thread that was interrupted has stopped. False if it has ended, or, as `errno` says, is out of reach
// for long; one that only gets no processor is waited for.
static bool wait_for_stop(pid_t process, struct stopped_thread *thread) {
  int status, times = 0;
  pid_t found;
  int64_t deadline = now() + stop_milliseconds;
  while ((found = waitpid(thread->id, &status, __WALL | WNOHANG)) == 0 || (found < 0 && errno == EINTR)) {
    if (now() >= deadline && is_out_of_reach(process, thread->id)) {
      errno = ETIMEDOUT;
      return false;
    }
    pause_briefly(&times);
  }
  errno = ESRCH;
  if (found < 0 || !WIFSTOPPED(status)) return false;
  // It was about to get a signal: that is handed on to it when it goes on.
  if (status >> 16 != PTRACE_EVENT_STOP) thread->signal = WSTOPSIG(status);
  return true;
}

// MARK: Stopping

static bool make_room(struct target *target) {
  return coroutine_make_room(&target->threads, &target->thread_capacity, target->thread_count, sizeof *target->threads);
}

bool coroutine_threads_add(struct target *target, struct stopped_thread thread) {
  if (!make_room(target)) return false;
  target->threads[target->thread_count++] = thread;
  return true;
}

// False with ETIMEDOUT: it has not stopped, and is released when the thread that traces it ends. Only where it got out
// of reach between the look and this.
static bool stop_thread(struct target *target, pid_t id) {
  if (!make_room(target)) {
    errno = ENOMEM;
    return false;
  }
  if (ptrace(PTRACE_SEIZE, id, NULL, NULL) != 0) return false;
  struct stopped_thread thread = {.id = id};
  if (ptrace(PTRACE_INTERRUPT, id, NULL, NULL) != 0) return true;
  if (wait_for_stop(target->pid, &thread)) return coroutine_threads_add(target, thread);
  return errno != ETIMEDOUT;
}

// One look at the threads. Whether there were new ones; `code` becomes the last reason why one could not be stopped, and
// stays ETIMEDOUT.
static bool stop_those_found(struct target *target, DIR *tasks, int *code) {
  size_t count = target->thread_count;
  struct dirent *entry;
  while (*code != ETIMEDOUT && (entry = readdir(tasks))) {
    pid_t id = (pid_t)atoi(entry->d_name);
    // A thread that ends can't be stopped any more (ESRCH, EPERM), the first one too: it matters if none could be.
    if (id > 0 && !is_known(target, id) && !stop_thread(target, id)) *code = errno;
  }
  return target->thread_count > count;
}

bool coroutine_threads_stop(struct target *target, enum target_failure *failure) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/task", target->pid);
  int code = wait_for_reach(target->pid) ? ESRCH : ETIMEDOUT;
  // Again until there is no new one: a thread that was not stopped yet may make others.
  bool found = code != ETIMEDOUT;
  while (found) {
    DIR *tasks = opendir(path);
    found = tasks && stop_those_found(target, tasks, &code) && code != ETIMEDOUT;
    if (tasks) closedir(tasks);
  }
  if (target->thread_count > 0 && code != ETIMEDOUT) return true;
  errno = code;
  *failure = code == EPERM || code == EACCES ? target_failed_permission
             : code == ESRCH                 ? target_failed_gone
             : code == ETIMEDOUT             ? target_failed_stuck
                                             : target_failed_system;
  return false;
}

pid_t coroutine_threads_standing(const struct target *target) {
  return is_known(target, target->pid) ? target->pid : target->threads[0].id;
}

void coroutine_threads_resume(struct target *target) {
  for (size_t i = 0; i < target->thread_count && !target->is_core; i++)
    ptrace(PTRACE_DETACH, target->threads[i].id, NULL, (void *)(intptr_t)target->threads[i].signal);
  target->thread_count = 0;
}

// MARK: Registers

void coroutine_threads_pick_registers(const struct user_regs_struct *general, uintptr_t registers[4]) {
#if defined(__x86_64__)
  registers[0] = (uintptr_t)general->rip;
  registers[1] = (uintptr_t)general->rsp;
  registers[2] = (uintptr_t)general->rbp;
  registers[3] = (uintptr_t)general->rbx;
#elif defined(__aarch64__)
  registers[0] = (uintptr_t)general->pc;
  registers[1] = (uintptr_t)general->sp;
  registers[2] = (uintptr_t)general->regs[29];
  registers[3] = (uintptr_t)general->regs[19];
#else
#error "CCoroutineInspection does not know where this architecture's pc, sp, fp and base register are in user_regs_struct."
#endif
}

size_t coroutine_target_thread_count(const struct target *target) { return target->thread_count; }

bool coroutine_target_thread_registers(struct target *target, size_t index, uintptr_t registers[4]) {
  const struct stopped_thread *thread = &target->threads[index];
  if (target->is_core) {
    memcpy(registers, thread->registers, sizeof thread->registers);
    return true;
  }
  struct user_regs_struct general;
  struct iovec all = {&general, sizeof general};
  if (ptrace(PTRACE_GETREGSET, thread->id, (void *)(intptr_t)NT_PRSTATUS, &all) != 0 || all.iov_len < sizeof general)
    return false;
  coroutine_threads_pick_registers(&general, registers);
  return true;
}
