// SPDX-License-Identifier: Apache-2.0

// System calls of files and folders. Each answers with a result, or with a negated errno.
#ifndef COROUTINE_IO_FILES_H
#define COROUTINE_IO_FILES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#if !defined(__clang__)
#define _Nonnull
#define _Nullable
#endif

// Opens a regular file or a disk; -ESPIPE for other files. It never waits for the writer of a FIFO and the like. It does for
// a process that has a lease on the file, which the kernel takes from it after a while. Closed by exec.
int coroutine_io_file_open(const char *_Nonnull path, int flags, mode_t mode);

// pread and pwrite, repeated until all is done, or the file has ended. Returns how many bytes were read or written. If
// some were written, an error waits for the next call; of a read it comes at once, as fewer bytes mean the end. A negative
// offset writes at the end, to a file that was opened with O_APPEND.
int64_t coroutine_io_file_read(int file, void *_Nonnull buffer, size_t count, int64_t offset);
int64_t coroutine_io_file_write(int file, const void *_Nonnull bytes, size_t count, int64_t offset);

int64_t coroutine_io_file_size(int file);
int coroutine_io_file_resize(int file, int64_t size);
int coroutine_io_file_synchronize(int file);

// -ESPIPE or -EISDIR if there is something other than a regular file at `path`.
int coroutine_io_file_may_be_replaced(const char *_Nonnull path);

bool coroutine_io_file_exists(const char *_Nonnull path);

// Gives `file` the rights of the file at `path`, if there is one, and its owner and group, as far as the process may. Rights that
// were meant for another group are left out.
int coroutine_io_file_copy_rights(int file, const char *_Nonnull path);

// rename, and then the folder's new entry is brought to its disk if `synchronizes`.
int coroutine_io_file_replace(const char *_Nonnull from, const char *_Nonnull to, bool synchronizes);

enum { coroutine_io_name_size = 1024 };

struct coroutine_io_entry {
  char name[coroutine_io_name_size];
  // DT_REG, DT_DIR, …
  uint8_t kind;
};

// A folder that is being read; NULL, with the error's number.
void *_Nullable coroutine_io_folder_open(const char *_Nonnull path, int *_Nonnull error);
void coroutine_io_folder_close(void *_Nonnull folder);

// The next entries, `.` and `..` left out; none at the end. (An error behind some of them is reported by the next call.)
int coroutine_io_folder_read(void *_Nonnull folder, struct coroutine_io_entry *_Nonnull entries, int count);

#endif
