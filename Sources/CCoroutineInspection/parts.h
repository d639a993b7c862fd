// SPDX-License-Identifier: Apache-2.0

// The parts of a target: shared between the files of this folder.
#pragma once

#include "include/target.h"

#include "image_build.h"
#include "make_room.h"
#include "regular_file.h"

#include <elf.h>
#include <sys/types.h>
#include <unistd.h>

// A part of memory in a file: in a core file, or in one that a core file refers to.
struct segment {
  uint64_t start, end;
  int file;         // a descriptor
  uint64_t offset;  // in that file
};

// A thread of a process that was stopped, or of a core file.
struct stopped_thread {
  pid_t id;
  int signal;              // that it was about to get
  uintptr_t registers[4];  // of a core file's: pc, sp, fp, base
};

// Fuzzing has fewer: under AddressSanitizer most of its time would go into making and unmaking this memory.
#ifndef COROUTINE_CACHED_PAGES
#define COROUTINE_CACHED_PAGES 1024
#endif

enum { page_size = 4096, cached_pages = COROUTINE_CACHED_PAGES };

struct walker;

struct target {
  int pid;
  int memory;  // /proc/PID/mem; -1 for a core file
  bool is_core;
  int page_map;  // /proc/PID/pagemap, or -1: says which pages have been touched

  struct stopped_thread *threads;
  size_t thread_count, thread_capacity;

  // Of a core file: those with its own bytes, then those of other files, each part in the order of the addresses.
  struct segment *segments;
  size_t segment_count, segment_capacity, own_segments;
  int *files;
  size_t file_count, file_capacity;

  // Of a core file: where there is code, in the order of the addresses, to report files that are missing.
  struct code *code;
  size_t code_count, code_capacity;

  struct target_image *images;
  size_t image_count, image_capacity;

  // Pages that were read: by the low bits of their number. The address is 1 where there is none.
  struct {
    uint64_t address[cached_pages];
    uint8_t bytes[cached_pages][page_size];
  } *cache;

  // How many bytes may be read still: see `coroutine_target_is_exhausted`.
  uint64_t budget;
  bool is_exhausted;

  struct walker *walker;
};

// Sets the budget of a target from its size in bytes: those that a file takes on its disk, or that a process has
// touched.
void coroutine_target_set_budget(struct target *target, uint64_t size);

// An empty target; NULL without memory.
struct target *coroutine_target_create(void);

// Stops all threads of a process. Undone by `coroutine_threads_resume`.
bool coroutine_threads_stop(struct target *target, enum target_failure *failure);
void coroutine_threads_resume(struct target *target);

// A thread that was stopped, if possible the process's first: when that has ended, /proc leads to the memory and the files by
// the others' numbers only.
pid_t coroutine_threads_standing(const struct target *target);

// Adds a thread; false without memory.
bool coroutine_threads_add(struct target *target, struct stopped_thread thread);

// Takes pc, sp, fp and the base register out of a thread's general registers, as the kernel writes them to core files
// and to tracers.
struct user_regs_struct;
void coroutine_threads_pick_registers(const struct user_regs_struct *general, uintptr_t registers[4]);

// Adds the ELF image that begins at `start`, if there is one. Takes over neither string.
bool coroutine_target_add_image(struct target *target, uint64_t start, const char *path, const char *file, enum target_file state);

// Adds one whose headers are not known, only the addresses.
bool coroutine_target_add_unproven_image(struct target *target, uint64_t start, uint64_t end, uint64_t bias, const char *path);

// Puts the images in order, when all are there. `coroutine_target_image_around` is for afterwards; NULL: there is none.
void coroutine_target_sort_images(struct target *target);
const struct target_image *coroutine_target_image_around(const struct target *target, uint64_t address);

// Whether a file with this header is for machines like this one.
bool coroutine_target_is_of_this_machine(const Elf64_Ehdr *header);

// The build whose image begins in memory at `start`, as far as it can be read.
struct coroutine_image_build coroutine_target_build(struct target *target, uint64_t start);

// Whether a file is of that build, as far as both are known.
enum target_file coroutine_target_check_file(const char *path, struct coroutine_image_build build);

// Whether a file whose build is `own` (NULL: it is no ELF file) is certainly of that build: both have the same number, or neither
// has one and the headers are the same.
enum target_file coroutine_target_prove_file(const struct coroutine_image_build *own, struct coroutine_image_build build);

// The build of an open file. False if it is no ELF file.
bool coroutine_target_file_build(int file, struct coroutine_image_build *build);

// Takes away the words that the kernel puts behind the name of a file that was deleted: another file may have got the
// name, or the same one again.
void coroutine_target_trim_path(char *path);

// Gives the images the names that the process's own loader has for them, which the kernel may spell differently.
void coroutine_target_name_images(struct target *target);

// Opens a regular file for as long as the target is open; -1 on failure.
int coroutine_target_open_file(struct target *target, const char *path);

// Adds a part of memory that lies in a file. False without memory; a part with impossible addresses is left out.
bool coroutine_target_add_segment(struct target *target, uint64_t start, uint64_t size, int file, uint64_t offset);

// Puts the segments from `first` on in the order of their addresses.
void coroutine_target_sort_segments(struct target *target, size_t first);

// The files that were mapped, by the note NT_FILE of a core file: numbers, then names.
struct mapped_files;
struct mapped_files *coroutine_mapped_files_create(const uint8_t *bytes, size_t size);  // NULL without memory
void coroutine_mapped_files_destroy(struct mapped_files *files);

// The name of the file mapped at an address, and where its beginning is mapped; NULL if there is none.
const char *coroutine_mapped_files_at(const struct mapped_files *files, uint64_t address, uint64_t *beginning);

// Adds the parts of memory that are mapped from files, behind the core file's own bytes, and the images among them.
// `executable` is open, and stands for the file called `executable_path`, which may be NULL.
bool coroutine_target_add_mapped_files(struct target *target, const struct mapped_files *files, const char *executable_path,
                                       int executable);

// A part of memory that a core file says is code.
struct code {
  uint64_t start, end;
};

void coroutine_walker_destroy(struct walker *walker);
