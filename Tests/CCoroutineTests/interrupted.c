#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "CCoroutineTests.h"

static atomic_int fsyncs;

// In place of the call, whose result is what this writes into the register for it.
static void answer_fsync(int number, siginfo_t *info, void *context) {
  (void)number, (void)info;
  long answer = atomic_fetch_add(&fsyncs, 1) == 0 ? -EINTR : 0;
  ucontext_t *state = context;
#if defined(__x86_64__)
  state->uc_mcontext.gregs[REG_RAX] = answer;
#elif defined(__aarch64__)
  state->uc_mcontext.regs[0] = (unsigned long long)answer;
#else
#error "where a system call's result is"
#endif
}

int coroutine_test_interrupt_fsync(void) {
  struct sigaction action = {.sa_sigaction = answer_fsync, .sa_flags = SA_SIGINFO};
  sigemptyset(&action.sa_mask);
  if (sigaction(SIGSYS, &action, NULL) != 0) return errno;
  sigset_t traps;
  sigemptyset(&traps);
  sigaddset(&traps, SIGSYS);
  pthread_sigmask(SIG_UNBLOCK, &traps, NULL);
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fsync, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {.len = sizeof filter / sizeof filter[0], .filter = filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno;
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0 ? 0 : errno;
}

int coroutine_test_fsync_count(void) { return atomic_load(&fsyncs); }
