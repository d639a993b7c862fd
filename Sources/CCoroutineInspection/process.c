// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE 1
#include "parts.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void coroutine_target_trim_path(char *path) {
  static const char mark[] = " (deleted)";
  size_t length = strlen(path), marked = sizeof mark - 1;
  if (length > marked && strcmp(path + length - marked, mark) == 0) path[length - marked] = 0;
}

// A mapping of the beginning of a file, or one of the kernel itself, may be an image.
static bool add_images(struct target *target) {
  char path[64], executable_path[64];
  pid_t thread = coroutine_threads_standing(target);
  snprintf(path, sizeof path, "/proc/%d/maps", thread);
  snprintf(executable_path, sizeof executable_path, "/proc/%d/exe", thread);
  char executable[4096] = {0};
  bool knows_executable = readlink(executable_path, executable, sizeof executable - 1) > 0;
  FILE *maps = fopen(path, "re");
  if (!maps) return false;
  char *line = NULL;
  size_t room = 0;
  while (getline(&line, &room, maps) > 0) {
    uint64_t start, end, offset, inode;
    char rights[8], device[24];
    int name = 0;
    if (sscanf(line, "%lx-%lx %7s %lx %23s %lu %n", &start, &end, rights, &offset, device, &inode, &name) < 6 ||
        name == 0 || offset != 0 || rights[0] != 'r')
      continue;
    char *mapped = line + name;
    mapped[strcspn(mapped, "\n")] = 0;
    if (*mapped != '/' && strcmp(mapped, "[vdso]") != 0) continue;
    char file[4096 + 64];
    bool is_executable = knows_executable && strcmp(mapped, executable) == 0;
    bool is_kernels = *mapped != '/';
    coroutine_target_trim_path(mapped);
    // The first name leads to the file that runs, also if another one has taken its place. For libraries only
    // privileged processes have such a way: the file of that name, perhaps in a container, may be another one.
    if (is_executable)
      snprintf(file, sizeof file, "%s", executable_path);
    else
      snprintf(file, sizeof file, "/proc/%d/root%s", thread, mapped);
    struct coroutine_image_build build = coroutine_target_build(target, start);
    // Data, a device: to open it may do something, or take for ever.
    if (!build.layout) continue;
    enum target_file state = is_kernels ? target_file_right : coroutine_target_check_file(file, build);
    if (coroutine_target_add_image(target, start, mapped, file, state))
      target->images[target->image_count - 1].is_executable = is_executable;
  }
  free(line);
  fclose(maps);
  return true;
}

// How many bytes of its memory a process has touched. 0: not known.
static uint64_t touched_memory(pid_t thread) {
  char path[64], line[256];
  snprintf(path, sizeof path, "/proc/%d/status", thread);
  FILE *status = fopen(path, "re");
  uint64_t kilobytes = 0, part;
  while (status && fgets(line, sizeof line, status))
    if (sscanf(line, "VmRSS: %lu", &part) == 1 || sscanf(line, "VmSwap: %lu", &part) == 1) kilobytes += part;
  if (status) fclose(status);
  return kilobytes << 10;
}

struct target *coroutine_target_open_process(int pid, enum target_failure *failure) {
  *failure = target_failed_system;
  if (pid <= 0 || (kill(pid, 0) != 0 && errno == ESRCH)) {
    *failure = target_failed_no_process;
    return NULL;
  }
  struct target *target = coroutine_target_create();
  if (!target) return NULL;
  target->pid = pid;
  char path[64];
  if (!coroutine_threads_stop(target, failure)) goto fail;
  snprintf(path, sizeof path, "/proc/%d/mem", coroutine_threads_standing(target));
  target->memory = open(path, O_RDONLY | O_CLOEXEC);
  if (target->memory < 0) {
    *failure = errno == EACCES || errno == EPERM ? target_failed_permission : target_failed_system;
    goto fail;
  }
  snprintf(path, sizeof path, "/proc/%d/pagemap", coroutine_threads_standing(target));
  target->page_map = open(path, O_RDONLY | O_CLOEXEC);
  coroutine_target_set_budget(target, touched_memory(coroutine_threads_standing(target)));
  if (!add_images(target)) {
    *failure = target_failed_gone;
    goto fail;
  }
  coroutine_target_sort_images(target);
  coroutine_target_name_images(target);
  return target;
fail:;
  int code = errno;
  coroutine_target_close(target);
  errno = code;
  return NULL;
}
