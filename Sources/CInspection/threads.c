#define _GNU_SOURCE 1
#include "parts.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

// All threads are stopped, so that what lies in memory belongs together. By PTRACE_SEIZE, not ATTACH: it sends no signal,
// the process does not learn of it, and goes on by itself should this one be killed.

static bool is_known(const struct target *target, pid_t thread) {
  for (size_t i = 0; i < target->thread_count; i++)
    if (target->threads[i].id == thread) return true;
  return false;
}

// Waits until a thread that was interrupted stands. False if it has ended.
static bool wait_for_stop(struct stopped_thread *thread) {
  int status;
  pid_t found;
  do found = waitpid(thread->id, &status, __WALL);
  while (found < 0 && errno == EINTR);
  if (found < 0 || !WIFSTOPPED(status)) return false;
  // It was about to get a signal: that is handed on to it when it goes on.
  if (status >> 16 != PTRACE_EVENT_STOP) thread->signal = WSTOPSIG(status);
  return true;
}

static bool make_room(struct target *target) {
  return target_make_room(&target->threads, &target->thread_capacity, target->thread_count, sizeof *target->threads);
}

bool threads_add(struct target *target, struct stopped_thread thread) {
  if (!make_room(target)) return false;
  target->threads[target->thread_count++] = thread;
  return true;
}

static bool stop_thread(struct target *target, pid_t id) {
  if (!make_room(target)) {
    errno = ENOMEM;
    return false;
  }
  if (ptrace(PTRACE_SEIZE, id, NULL, NULL) != 0) return false;
  struct stopped_thread thread = {.id = id};
  if (ptrace(PTRACE_INTERRUPT, id, NULL, NULL) == 0 && wait_for_stop(&thread)) threads_add(target, thread);
  return true;
}

// One look at the threads. Whether there were new ones; `code` becomes the last reason why one could not be stopped.
static bool stop_those_found(struct target *target, DIR *tasks, int *code) {
  size_t count = target->thread_count;
  struct dirent *entry;
  while ((entry = readdir(tasks))) {
    pid_t id = (pid_t)atoi(entry->d_name);
    // A thread that ends can't be stopped any more (ESRCH, EPERM), the first one too: it matters if nobody could be.
    if (id > 0 && !is_known(target, id) && !stop_thread(target, id)) *code = errno;
  }
  return target->thread_count > count;
}

bool threads_stop(struct target *target, enum target_failure *failure) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/task", target->pid);
  // Again until there is no new one: a thread that was not stopped yet may make others.
  bool found;
  int code = ESRCH;
  do {
    DIR *tasks = opendir(path);
    found = tasks && stop_those_found(target, tasks, &code);
    if (tasks) closedir(tasks);
  } while (found);
  if (target->thread_count > 0) return true;
  errno = code;
  *failure = code == EPERM || code == EACCES ? target_failed_permission
             : code == ESRCH                 ? target_failed_gone
                                             : target_failed_system;
  return false;
}

pid_t threads_standing(const struct target *target) {
  return is_known(target, target->pid) ? target->pid : target->threads[0].id;
}

void threads_resume(struct target *target) {
  for (size_t i = 0; i < target->thread_count && !target->is_core; i++)
    ptrace(PTRACE_DETACH, target->threads[i].id, NULL, (void *)(intptr_t)target->threads[i].signal);
  target->thread_count = 0;
}

// MARK: Registers

void threads_pick_registers(const struct user_regs_struct *general, uintptr_t registers[4]) {
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
#error "CInspection does not know where this architecture's pc, sp, fp and base register are in user_regs_struct."
#endif
}

size_t target_thread_count(const struct target *target) { return target->thread_count; }

bool target_thread_registers(struct target *target, size_t index, uintptr_t registers[4]) {
  const struct stopped_thread *thread = &target->threads[index];
  if (target->is_core) {
    memcpy(registers, thread->registers, sizeof thread->registers);
    return true;
  }
  struct user_regs_struct general;
  struct iovec all = {&general, sizeof general};
  if (ptrace(PTRACE_GETREGSET, thread->id, (void *)(intptr_t)NT_PRSTATUS, &all) != 0 || all.iov_len < sizeof general)
    return false;
  threads_pick_registers(&general, registers);
  return true;
}
