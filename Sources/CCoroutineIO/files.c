// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE 1
#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int result(int value) { return value < 0 ? -errno : value; }

// Waits until another process, as a rule a file server, has given up its lease on a regular file (F_SETLEASE). Not by the path,
// which may lead to a FIFO by now.
static int open_leased(const char *path, int flags) {
  int found = open(path, O_PATH | O_CLOEXEC);
  if (found < 0) return -1;
  int file = -1;
  struct stat status;
  if (fstat(found, &status) == 0 && S_ISREG(status.st_mode)) {
    char again[sizeof "/proc/self/fd/" + 11];
    snprintf(again, sizeof again, "/proc/self/fd/%d", found);
    do file = open(again, (flags & ~(O_CREAT | O_EXCL)) | O_CLOEXEC | O_NOCTTY);
    while (file < 0 && errno == EINTR);
  } else {
    errno = EAGAIN;
  }
  int error = errno;
  close(found);
  errno = error;
  return file;
}

int coroutine_io_file_open(const char *path, int flags, mode_t mode) {
  int file;
  // O_NONBLOCK: the open of a FIFO waits for its other end. Regular files don't know it, unless there is a lease on them.
  do file = open(path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, mode);
  while (file < 0 && errno == EINTR);
  if (file < 0 && errno == EAGAIN) file = open_leased(path, flags);
  // A FIFO without a reader, opened to write.
  if (file < 0) return errno == ENXIO ? -ESPIPE : -errno;
  struct stat status;
  int error = fstat(file, &status) != 0                                  ? errno
              : S_ISDIR(status.st_mode)                                  ? EISDIR
              : S_ISREG(status.st_mode) || S_ISBLK(status.st_mode) ? 0
                                                                         : ESPIPE;
  if (error == 0) return file;
  close(file);
  return -error;
}

int64_t coroutine_io_file_read(int file, void *buffer, size_t count, int64_t offset) {
  size_t done = 0;
  while (done < count) {
    ssize_t some = pread(file, (char *)buffer + done, count - done, offset + (off_t)done);
    if (some > 0) done += (size_t)some;
    else if (some == 0) break;
    // Also behind a part: that alone would look like the end of the file.
    else if (errno != EINTR) return -errno;
  }
  return (int64_t)done;
}

int64_t coroutine_io_file_write(int file, const void *bytes, size_t count, int64_t offset) {
  size_t done = 0;
  while (done < count) {
    const char *rest = (const char *)bytes + done;
    ssize_t some = offset < 0 ? write(file, rest, count - done) : pwrite(file, rest, count - done, offset + (off_t)done);
    if (some > 0) done += (size_t)some;
    // A device or a file system that takes nothing and says no reason: again and again that would never end.
    else if (some == 0) return done > 0 ? (int64_t)done : -EIO;
    else if (errno != EINTR) return done > 0 ? (int64_t)done : -errno;
  }
  return (int64_t)done;
}

int64_t coroutine_io_file_size(int file) {
  struct stat status;
  if (fstat(file, &status) != 0) return -errno;
  // A disk says only where its end is.
  if (!S_ISBLK(status.st_mode)) return status.st_size;
  off_t end = lseek(file, 0, SEEK_END);
  return end < 0 ? -errno : end;
}

int coroutine_io_file_resize(int file, int64_t size) {
  int value;
  do value = ftruncate(file, size);
  while (value != 0 && errno == EINTR);
  return result(value);
}

int coroutine_io_file_synchronize(int file) {
  int value;
  do value = fsync(file);
  while (value != 0 && errno == EINTR);
  return result(value);
}

int coroutine_io_file_may_be_replaced(const char *path) {
  struct stat status;
  // What else is wrong with the path, the replacement says.
  if (stat(path, &status) != 0 || S_ISREG(status.st_mode)) return 0;
  return S_ISDIR(status.st_mode) ? -EISDIR : -ESPIPE;
}

int coroutine_io_file_copy_rights(int file, const char *path) {
  struct stat status;
  if (stat(path, &status) != 0) return errno == ENOENT ? 0 : -errno;
  mode_t rights = status.st_mode & 07777;
  // Its owner and group, where the process may give them away: "set user id" must not become that of another user, nor the rights
  // of one group those of another, which has what all others have.
  if (fchown(file, status.st_uid, status.st_gid) != 0) {
    rights &= 0777;
    if (fchown(file, (uid_t)-1, status.st_gid) != 0) rights = (rights & 0707) | (rights & 07) << 3;
  }
  return result(fchmod(file, rights));
}

bool coroutine_io_file_exists(const char *path) {
  struct stat status;
  return stat(path, &status) == 0;
}

int coroutine_io_file_replace(const char *from, const char *to, bool synchronizes) {
  int file = -1;
  if (synchronizes) {
    // First: where it is refused the old file must still be there.
    char folder[PATH_MAX];
    if (strlen(to) >= sizeof folder) return -ENAMETOOLONG;
    strcpy(folder, to);
    file = open(dirname(folder), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file < 0) return -errno;
  }
  int value = result(rename(from, to));
  if (!synchronizes) return value;
  if (value == 0) {
    value = coroutine_io_file_synchronize(file);
    // Some file systems know no fsync of a folder.
    if (value == -EINVAL) value = 0;
  }
  close(file);
  return value;
}

void *coroutine_io_folder_open(const char *path, int *error) {
  DIR *folder = opendir(path);
  *error = folder ? 0 : errno;
  return folder;
}

void coroutine_io_folder_close(void *folder) { closedir(folder); }

static uint8_t kind_of(DIR *folder, const struct dirent *entry) {
  struct stat status;
  if (entry->d_type != DT_UNKNOWN || fstatat(dirfd(folder), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0)
    return entry->d_type;
  return IFTODT(status.st_mode);
}

int coroutine_io_folder_read(void *folder, struct coroutine_io_entry *entries, int count) {
  int found = 0;
  while (found < count) {
    errno = 0;
    struct dirent *entry = readdir(folder);
    if (!entry) {
      if (errno != 0 && found == 0) return -errno;
      break;
    }
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    snprintf(entries[found].name, sizeof entries[found].name, "%s", entry->d_name);
    entries[found].kind = kind_of(folder, entry);
    found++;
  }
  return found;
}
