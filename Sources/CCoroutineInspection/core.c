// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE 1
#include "parts.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>
#include <sys/stat.h>
#include <sys/user.h>

// A core file: parts of a process's memory, and notes about it. The kernel mostly leaves out the memory that came from
// files, as they are there still: that is read from the files.

// Far more than kernels write: they end at some MiB of notes, and mostly at 65,530 mappings.
enum { longest_notes = 64 << 20, most_parts = 1 << 22 };

// What the notes say.
struct notes {
  struct mapped_files *files;
  uint64_t program_headers;  // the executable's, in memory
};

static bool read_exactly(int file, uint64_t offset, void *to, size_t count) {
  return pread(file, to, count, (off_t)offset) == (ssize_t)count;
}

// MARK: Notes

static void read_notes(struct target *target, struct notes *found, const uint8_t *bytes, size_t size) {
  for (size_t at = 0; at + sizeof(Elf64_Nhdr) <= size;) {
    Elf64_Nhdr note;
    memcpy(&note, bytes + at, sizeof note);
    size_t name = ((size_t)note.n_namesz + 3) & ~(size_t)3, value = at + sizeof note + name;
    if (value > size || note.n_descsz > size - value) return;
    if (note.n_type == NT_FILE && !found->files) {
      found->files = coroutine_mapped_files_create(bytes + value, note.n_descsz);
    } else if (note.n_type == NT_PRPSINFO && note.n_descsz >= sizeof(struct elf_prpsinfo)) {
      struct elf_prpsinfo process;
      memcpy(&process, bytes + value, sizeof process);
      target->pid = process.pr_pid;
    } else if (note.n_type == NT_PRSTATUS && note.n_descsz >= sizeof(struct elf_prstatus)) {
      struct elf_prstatus status;
      struct user_regs_struct general;
      memcpy(&status, bytes + value, sizeof status);
      memcpy(&general, &status.pr_reg, sizeof general);
      struct stopped_thread thread = {.id = status.pr_pid};
      coroutine_threads_pick_registers(&general, thread.registers);
      coroutine_threads_add(target, thread);
    } else if (note.n_type == NT_AUXV) {
      for (size_t i = 0; i + sizeof(Elf64_auxv_t) <= note.n_descsz; i += sizeof(Elf64_auxv_t)) {
        Elf64_auxv_t entry;
        memcpy(&entry, bytes + value + i, sizeof entry);
        if (entry.a_type == AT_PHDR) found->program_headers = entry.a_un.a_val;
      }
    }
    at = value + (((size_t)note.n_descsz + 3) & ~(size_t)3);
  }
}

// MARK: The file

// How many program headers there are: more than 65,534 are counted elsewhere.
static uint64_t header_count(int file, const Elf64_Ehdr *header) {
  if (header->e_phnum != PN_XNUM) return header->e_phnum;
  Elf64_Shdr first;
  return read_exactly(file, header->e_shoff, &first, sizeof first) ? first.sh_info : 0;
}

static int by_start(const void *left, const void *right) {
  uint64_t first = ((const struct code *)left)->start, second = ((const struct code *)right)->start;
  return (first > second) - (first < second);
}

// Takes one part of memory out of the list. False without memory.
static bool add_part(struct target *target, const Elf64_Phdr *part, int file) {
  if (!coroutine_target_add_segment(target, part->p_vaddr, part->p_filesz, file, part->p_offset)) return false;
  uint64_t end;
  if (!(part->p_flags & PF_X) || __builtin_add_overflow(part->p_vaddr, part->p_memsz, &end)) return true;
  if (!coroutine_make_room(&target->code, &target->code_capacity, target->code_count, sizeof *target->code)) return false;
  target->code[target->code_count++] = (struct code){part->p_vaddr, end};
  return true;
}

// How far the parts of a file reach, and how many bytes of notes there are. False if that overflows, or is more than
// notes can have: each of their bytes is in the file once.
static bool measure(const Elf64_Phdr *parts, uint64_t count, uint64_t size, uint64_t *wants) {
  uint64_t notes = 0, end;
  for (uint64_t i = 0; i < count; i++) {
    if (__builtin_add_overflow(parts[i].p_offset, parts[i].p_filesz, &end)) return false;
    if (end > *wants) *wants = end;
    if (parts[i].p_type != PT_NOTE) continue;
    if (__builtin_add_overflow(notes, parts[i].p_filesz, &notes) || notes > longest_notes) return false;
  }
  return notes <= size || *wants > size;
}

// Reads the list of what the file contains, checks that it does, and reads the notes.
static bool read_core(struct target *target, int file, uint64_t size, struct notes *notes, enum target_failure *failure,
                      uint64_t *wants) {
  Elf64_Ehdr header;
  *failure = target_failed_no_core;
  if (!read_exactly(file, 0, &header, sizeof header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_type != ET_CORE)
    return false;
  *failure = target_failed_architecture;
  if (!coroutine_target_is_of_this_machine(&header)) return false;
  uint64_t count = header_count(file, &header);
  *failure = target_failed_contradiction;
  if (count > most_parts || __builtin_add_overflow(header.e_phoff, count * sizeof(Elf64_Phdr), wants)) return false;
  *failure = target_failed_cut_short;
  if (count == 0 || *wants > size) return false;
  *failure = target_failed_system;
  Elf64_Phdr *parts = calloc(count, sizeof *parts);
  if (!parts) return false;
  bool is_read = read_exactly(file, header.e_phoff, parts, count * sizeof *parts);
  if (is_read && !measure(parts, count, size, wants)) {
    *failure = target_failed_contradiction;
    is_read = false;
  } else if (is_read && *wants > size) {
    *failure = target_failed_cut_short;
    is_read = false;
  }
  for (uint64_t i = 0; i < count && is_read; i++)
    if (parts[i].p_type == PT_LOAD) is_read = add_part(target, &parts[i], file);
  target->own_segments = target->segment_count;
  coroutine_target_sort_segments(target, 0);
  if (target->code_count > 0) qsort(target->code, target->code_count, sizeof *target->code, by_start);
  for (uint64_t i = 0; i < count && is_read; i++) {
    if (parts[i].p_type != PT_NOTE) continue;
    uint8_t *bytes = malloc(parts[i].p_filesz);
    if (bytes && read_exactly(file, parts[i].p_offset, bytes, parts[i].p_filesz))
      read_notes(target, notes, bytes, parts[i].p_filesz);
    free(bytes);
  }
  free(parts);
  return is_read;
}

// Opens the executable that a core file is of, as the user named it; -1 if it is not that one.
static int open_executable(struct target *target, const char *path, uint64_t beginning, enum target_failure *failure) {
  *failure = target_failed_executable;
  enum target_file state = coroutine_target_check_file(path, coroutine_target_build(target, beginning));
  if (state == target_file_other_build) *failure = target_failed_other_executable;
  return state == target_file_right ? coroutine_target_open_file(target, path) : -1;
}

struct target *coroutine_target_open_core(const char *core, const char *executable, enum target_failure *failure, uint64_t *has,
                                uint64_t *wants) {
  *failure = target_failed_system;
  struct target *target = coroutine_target_create();
  if (!target) return NULL;
  target->is_core = true;
  struct notes notes = {0};
  struct stat status;
  int file = coroutine_target_open_file(target, core);
  if (file < 0 && errno == EINVAL) *failure = target_failed_no_core;  // a folder, a pipe
  bool is_open = file >= 0 && fstat(file, &status) == 0;
  if (is_open) {
    *has = (uint64_t)status.st_size;
    // Not the size that the file claims, most of which may be a hole.
    coroutine_target_set_budget(target, (uint64_t)status.st_blocks * 512);
    is_open = read_core(target, file, *has, &notes, failure, wants);
  }
  if (is_open) {
    uint64_t beginning = 0;
    const char *path = notes.files ? coroutine_mapped_files_at(notes.files, notes.program_headers, &beginning) : NULL;
    int opened = open_executable(target, executable, path ? beginning : 0, failure);
    is_open = opened >= 0 && (!notes.files || coroutine_target_add_mapped_files(target, notes.files, path, opened));
  }
  int code = errno;
  coroutine_mapped_files_destroy(notes.files);
  errno = code;
  if (is_open) {
    coroutine_target_name_images(target);
    return target;
  }
  coroutine_target_close(target);
  errno = code;
  return NULL;
}
