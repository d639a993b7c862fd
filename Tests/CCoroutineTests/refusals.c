#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "CCoroutineTests.h"

static int refuse(const unsigned *numbers, size_t count, int code) {
  struct sock_filter filter[16];
  size_t length = 0;
  filter[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (size_t i = 0; i < count; i++) {
    // To the last statement if it is this one, else to the next.
    filter[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, numbers[i], (unsigned char)(count - i), 0);
  }
  filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)code);
  struct sock_fprog program = {.len = (unsigned short)length, .filter = filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno;
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0 ? 0 : errno;
}

int coroutine_test_refuse_renames(int code) {
  static const unsigned numbers[] = {
#ifdef SYS_rename
      SYS_rename,
#endif
      SYS_renameat, SYS_renameat2};
  return refuse(numbers, sizeof numbers / sizeof numbers[0], code);
}

int coroutine_test_refuse_closes(int code) {
  static const unsigned numbers[] = {SYS_close};
  return refuse(numbers, sizeof numbers / sizeof numbers[0], code);
}

int coroutine_test_refuse_signals(int code) {
  static const unsigned numbers[] = {SYS_kill, SYS_pidfd_send_signal};
  return refuse(numbers, sizeof numbers / sizeof numbers[0], code);
}
