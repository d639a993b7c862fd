#define _GNU_SOURCE

#include "CCoroutineFaults.h"

#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

// Where an architecture, or the headers, do not have a call: a number that none has.
enum { none = -2 };

#ifdef SYS_epoll_wait
enum { old_epoll_wait = SYS_epoll_wait };
#else
enum { old_epoll_wait = none };
#endif
#ifdef SYS_epoll_pwait2
enum { new_epoll_wait = SYS_epoll_pwait2 };
#else
enum { new_epoll_wait = none };
#endif

static const struct coroutine_fault_kind kinds[] = {
    {.name = "mmap", .code = ENOMEM, .numbers = {SYS_mmap}, .count = 1, .is_single = true},
    {.name = "mmap-stacks", .code = ENOMEM, .numbers = {SYS_mmap}, .count = 1, .flags = MAP_STACK},
    {.name = "mprotect", .code = ENOMEM, .numbers = {SYS_mprotect}, .count = 1},
    {.name = "madvise", .code = ENOMEM, .numbers = {SYS_madvise, SYS_process_madvise}, .count = 2},
    {.name = "madvise-unknown", .code = EINVAL, .numbers = {SYS_madvise, SYS_process_madvise}, .count = 2},
    {.name = "munmap", .code = ENOMEM, .numbers = {SYS_munmap}, .count = 1},
    {.name = "clone", .code = EAGAIN, .numbers = {SYS_clone, SYS_clone3}, .count = 2},
    {.name = "futex", .code = ENOSYS, .numbers = {SYS_futex}, .count = 1, .is_direct = true},
    {.name = "membarrier", .code = EPERM, .numbers = {SYS_membarrier}, .count = 1},
    {.name = "sigaltstack", .code = ENOMEM, .numbers = {SYS_sigaltstack}, .count = 1},
    {.name = "epoll_create", .code = EMFILE, .numbers = {SYS_epoll_create1}, .count = 1},
    {.name = "epoll_ctl", .code = ENOSPC, .numbers = {SYS_epoll_ctl}, .count = 1},
    {.name = "epoll_wait", .code = EBADF, .numbers = {old_epoll_wait, SYS_epoll_pwait, new_epoll_wait}, .count = 3},
    {.name = "eventfd", .code = EMFILE, .numbers = {SYS_eventfd2}, .count = 1},
    {.name = "eventfd-write", .code = EBADF, .numbers = {SYS_write}, .count = 1, .length = 8},
    {.name = "eventfd-read", .code = EBADF, .numbers = {SYS_read}, .count = 1, .length = 8},
    {.name = "socket", .code = EMFILE, .numbers = {SYS_socket, SYS_socketpair}, .count = 2},
    {.name = "accept", .code = EMFILE, .numbers = {SYS_accept, SYS_accept4}, .count = 2},
    {.name = "pipe", .code = EMFILE, .numbers = {SYS_pipe2}, .count = 1},
    {.name = "signals", .is_storm = true},
    {.name = "pidfd_open", .code = EMFILE, .numbers = {SYS_pidfd_open}, .count = 1},
};

const struct coroutine_fault_kind *coroutine_fault_kinds(size_t *count) {
  *count = sizeof kinds / sizeof kinds[0];
  return kinds;
}

struct copy {
  void (*body)(void *);
  void *context;
  pid_t process;
};

static void *make_copy(void *argument) {
  struct copy *copy = argument;
  copy->process = _Fork();
  if (copy->process == 0) {
    alarm(120);  // should the supervisor end before it
    copy->body(copy->context);
    _exit(127);
  }
  return NULL;
}

pid_t coroutine_fault_fork(void (*body)(void *), void *context) {
  struct copy copy = {.body = body, .context = context, .process = -1};
  pthread_t thread;
  if (pthread_create(&thread, NULL, make_copy, &copy) != 0) return -1;
  pthread_join(thread, NULL);
  return copy.process;
}

// MARK: In the process

static int send_descriptor(int socket, int descriptor) {
  char byte = 0;
  struct iovec data = {.iov_base = &byte, .iov_len = 1};
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control = {0};
  struct msghdr message = {
      .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.bytes};
  control.header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
  memcpy(CMSG_DATA(&control.header), &descriptor, sizeof descriptor);
  return sendmsg(socket, &message, MSG_NOSIGNAL) == 1 ? 0 : errno;
}

// MARK: The storm

// The threads that are told apart: the first one, and others by the names that the runtime gives them.
static const char *const storm_names[] = {"", "coroutine-pool", "coroutine-timer", "coroutine-block"};
enum { storm_name_count = sizeof storm_names / sizeof storm_names[0] };

static struct {
  _Atomic size_t threads, arrivals, interruptions;
} storm_counts[storm_name_count];
static _Atomic size_t storm_rounds;

// Whether this is the address behind the instruction of a system call, which returns EINTR.
static bool ends_call(const ucontext_t *context) {
#if defined(__x86_64__)
  const unsigned char *next = (const unsigned char *)context->uc_mcontext.gregs[REG_RIP];
  return context->uc_mcontext.gregs[REG_RAX] == -EINTR && next[-2] == 0x0f && next[-1] == 0x05;
#elif defined(__aarch64__)
  const uint32_t *next = (const uint32_t *)context->uc_mcontext.pc;
  return (int64_t)context->uc_mcontext.regs[0] == -EINTR && next[-1] == 0xd4000001;
#else
#error "what a system call looks like"
#endif
}

static void count_arrival(int number, siginfo_t *info, void *context) {
  (void)number, (void)info;
  static __thread bool was_counted[storm_name_count];
  int code = errno;
  char name[16] = "";
  if (gettid() != getpid()) prctl(PR_GET_NAME, name);
  for (size_t index = 0; index < storm_name_count; index++) {
    // Another thread than the first may have no name yet.
    if (strcmp(name, storm_names[index]) != 0 || (index == 0) != (gettid() == getpid())) continue;
    if (!was_counted[index]) storm_counts[index].threads++;
    was_counted[index] = true;
    if (ends_call(context)) storm_counts[index].interruptions++;
    storm_counts[index].arrivals++;
  }
  errno = code;
}

// The kernel would give a timer's signals to the first thread, if that does not block them.
static void *signal_all_threads(void *argument) {
  (void)argument;
  pid_t process = getpid(), own = gettid();
  for (;;) {
    DIR *folder = opendir("/proc/self/task");
    if (folder == NULL) abort();
    // Read before any is sent one: a program that makes threads all the time would never let a round end.
    pid_t threads[256];
    size_t count = 0;
    for (struct dirent *entry; count < sizeof threads / sizeof threads[0] && (entry = readdir(folder)) != NULL;) {
      pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);
      if (thread > 0 && thread != own) threads[count++] = thread;
    }
    closedir(folder);
    // It fails where the thread has ended meanwhile.
    for (size_t index = 0; index < count; index++) (void)tgkill(process, threads[index], SIGUSR2);
    storm_rounds++;
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  }
  return NULL;
}

static int begin_storm(void) {
  struct sigaction action = {.sa_sigaction = count_arrival, .sa_flags = SA_SIGINFO};  // without SA_RESTART
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGUSR2);
  pthread_t thread;
  // What this thread blocks, those that it makes would block, too.
  if (sigaction(SIGUSR2, &action, NULL) != 0 || sigprocmask(SIG_UNBLOCK, &mask, NULL) != 0) return errno;
  return pthread_create(&thread, NULL, signal_all_threads, NULL);
}

size_t coroutine_storm_round_count(void) { return storm_rounds; }

bool coroutine_storm_count(const char *name, struct coroutine_storm_count *count) {
  for (size_t index = 0; index < storm_name_count; index++) {
    if (strcmp(name, storm_names[index]) != 0) continue;
    count->threads = storm_counts[index].threads;
    count->arrivals = storm_counts[index].arrivals;
    count->interruptions = storm_counts[index].interruptions;
    return true;
  }
  return false;
}

int coroutine_fault_begin(const struct coroutine_fault_kind *kind, int socket) {
  struct sock_filter filter[8];
  unsigned short length = 0;
  filter[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (size_t index = 0; index < kind->count; index++) {
    // The jump leads to the last instruction.
    unsigned char distance = (unsigned char)(kind->count - index);
    filter[length++] =
        (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)kind->numbers[index], distance, 0);
  }
  filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
  struct sock_fprog program = {.len = length, .filter = filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno;
  int listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
  if (listener < 0) return errno;
  int code = send_descriptor(socket, listener);
  close(listener);
  close(socket);
  if (code == 0 && kind->is_storm) code = begin_storm();
  return code;
}

// MARK: In the supervisor

int coroutine_fault_listen(int socket) {
  char byte;
  struct iovec data = {.iov_base = &byte, .iov_len = 1};
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control = {0};
  struct msghdr message = {
      .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.bytes};
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) return -1;
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  if (header == NULL || header->cmsg_type != SCM_RIGHTS) return -1;
  int descriptor;
  memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  return descriptor;
}

// The function is a dozen instructions, and the same in both processes: one is the other's copy.
static bool is_in_syscall(uint64_t address) {
  uint64_t start = (uint64_t)(uintptr_t)syscall;
  return address >= start && address < start + 64;
}

static bool is_thread_of(pid_t process, pid_t thread) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/task/%d", process, thread);
  return access(path, F_OK) == 0;
}

bool coroutine_fault_take(
    int listener, const struct coroutine_fault_kind *kind, pid_t process, struct coroutine_fault_call *call) {
  struct seccomp_notif notification;
  memset(&notification, 0, sizeof notification);
  while (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &notification) != 0) {
    if (errno != EINTR) return false;
  }
  call->id = notification.id;
  call->number = notification.data.nr;
  call->counts = (!kind->is_direct || is_in_syscall(notification.data.instruction_pointer)) &&
                 (kind->length == 0 || notification.data.args[2] == kind->length) &&
                 (notification.data.args[3] & kind->flags) == kind->flags &&
                 is_thread_of(process, (pid_t)notification.pid);
  return true;
}

void coroutine_fault_answer(int listener, const struct coroutine_fault_call *call, int code) {
  struct seccomp_notif_resp response = {
      .id = call->id, .error = -code, .flags = code == 0 ? SECCOMP_USER_NOTIF_FLAG_CONTINUE : 0};
  // It fails where the process has gone meanwhile.
  (void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
}
