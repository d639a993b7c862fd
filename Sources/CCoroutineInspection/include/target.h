// SPDX-License-Identifier: Apache-2.0

// Another process, or what a core file has kept of one: its memory, the executables and libraries in it, and its stacks.
//
// One thread at a time uses a target; if a process was stopped, only the thread that stopped it (ptrace knows tracers
// by thread). No data that is read is trusted: an address that leads nowhere is an answer like any other.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct target;

// Why there is no target.
enum target_failure {
  target_failed_system = 1,    // errno says why
  target_failed_no_process,    // there is none of that number
  target_failed_permission,    // it may not be looked at
  target_failed_gone,          // it ended meanwhile
  target_failed_stuck,         // a thread can't be stopped: none is
  target_failed_no_core,       // no ELF core file
  target_failed_architecture,  // of another kind of machine
  target_failed_cut_short,     // the file has fewer bytes than it says
  target_failed_executable,    // the executable can't be read, or is no ELF file
  target_failed_other_executable,  // it is not the one that the core file is of
  target_failed_contradiction,     // the core file's own numbers cannot all be true
};

// Opens a running process and stops all its threads, until `coroutine_target_resume` or `coroutine_target_close`.
struct target *coroutine_target_open_process(int pid, enum target_failure *failure);

// Opens a core file. `executable` is the file that the process ran: core files often leave out the memory that is equal
// to it. `has` and `wants` get the bytes that the file has, and how many it should have.
struct target *coroutine_target_open_core(const char *core, const char *executable, enum target_failure *failure, uint64_t *has,
                                uint64_t *wants);

// Lets the process go on. Data that was read until then can be read still, as far as it was kept.
void coroutine_target_resume(struct target *target);
void coroutine_target_close(struct target *target);

int coroutine_target_pid(const struct target *target);

// Copies memory. False if not all of it can be read.
bool coroutine_target_read(struct target *target, uint64_t address, void *to, size_t count);

// Whether more was read than a target of that size can need: lists and counts in it lead round in circles, or name the
// same memory again and again. Then nothing can be read any more.
bool coroutine_target_is_exhausted(const struct target *target);

// MARK: Executables and libraries

// Whether an image's file is the one that was loaded.
enum target_file {
  target_file_right = 0,
  target_file_missing,      // it can't be read
  target_file_other_build,
  target_file_no_image,     // no ELF file
  target_file_unproven,     // the core file keeps nothing of it by which it would be recognised: it was not read
};

struct target_image {
  uint64_t start, end;     // the addresses that it takes
  uint64_t bias;           // an address less this is the address as the file counts
  const char *path;        // as the process knows it
  const char *file;        // where it can be opened now; empty if it can't, or is not what was loaded
  enum target_file state;
  bool is_executable;      // what the process was started with
  uint64_t unwind_table;   // .eh_frame_hdr; 0: none
};

size_t coroutine_target_image_count(const struct target *target);
const struct target_image *coroutine_target_image_at(const struct target *target, size_t index);

// The value of the ELF note with this owner and type, which is the distance to an address: that address. 0: no image
// has it. `*index` is the image to begin with, and becomes the one behind the image that has it.
uint64_t coroutine_target_find_note(struct target *target, const char *owner, uint32_t type, size_t *index);

// MARK: Stacks

// The threads, as long as they stand still; those of a core file.
size_t coroutine_target_thread_count(const struct target *target);

// Where one of them stands: its pc, sp, fp and base register. False if that is not known.
bool coroutine_target_thread_registers(struct target *target, size_t index, uintptr_t registers[4]);

// How deep a stack has been that was all zeros at first and ends at `top`: where above `limit` its lowest word lies that is not
// 0, counted from the top.
uint64_t coroutine_target_stack_peak(struct target *target, uint64_t limit, uint64_t top);

// Walks a stack, as `coroutine_unwinder_walk` of CCoroutineUnwind does in its own process, or, where a thread was
// interrupted, as `coroutine_unwinder_walk_copy`. `is_cut`: set where it ends at code of a file that can't be read, or
// is another build: then the caller of that code is not known.
size_t coroutine_target_walk(struct target *target, const uintptr_t registers[4], uintptr_t top, bool is_interrupted,
                   uintptr_t *addresses, size_t capacity, bool *is_cut);
