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

// A core file: parts of a process's memory, and notes about it. What the memory has from files, as they are there still, the
// kernel leaves out mostly: it is read from these files.

enum { longest_note = 64 << 20, longest_path = 4096 + 64 };

// What the notes tell.
struct notes {
  uint8_t *bytes;     // of all mapped files: numbers, then names
  size_t size;
  uint64_t program_headers;  // the executable's, in memory
};

static bool read_exactly(int file, uint64_t offset, void *to, size_t count) {
  return pread(file, to, count, (off_t)offset) == (ssize_t)count;
}

static bool add_segment(struct target *target, uint64_t start, uint64_t size, int file, uint64_t offset) {
  if (size == 0) return true;
  if (!coroutine_target_make_room(&target->segments, &target->segment_capacity, target->segment_count, sizeof *target->segments))
    return false;
  target->segments[target->segment_count++] = (struct segment){start, start + size, file, offset};
  return true;
}

static int by_start(const void *left, const void *right) {
  uint64_t first = ((const struct segment *)left)->start, second = ((const struct segment *)right)->start;
  return (first > second) - (first < second);
}

// MARK: Notes

static void read_notes(struct target *target, struct notes *found, const uint8_t *bytes, size_t size) {
  for (size_t at = 0; at + sizeof(Elf64_Nhdr) <= size;) {
    Elf64_Nhdr note;
    memcpy(&note, bytes + at, sizeof note);
    size_t name = ((size_t)note.n_namesz + 3) & ~(size_t)3, value = at + sizeof note + name;
    if (value > size || note.n_descsz > size - value) return;
    if (note.n_type == NT_FILE && !found->bytes && (found->bytes = malloc(note.n_descsz))) {
      memcpy(found->bytes, bytes + value, note.n_descsz);
      found->size = note.n_descsz;
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

// MARK: Mapped files

// One mapping of a file; `path` is NULL behind the last one.
struct mapping {
  uint64_t start, end, offset;
  const char *path;
};

static struct mapping mapping_at(const struct notes *notes, size_t index) {
  uint64_t count, page, numbers[3];
  if (notes->size < 16) return (struct mapping){0};
  memcpy(&count, notes->bytes, sizeof count);
  memcpy(&page, notes->bytes + 8, sizeof page);
  if (index >= count || count > (notes->size - 16) / sizeof numbers) return (struct mapping){0};
  memcpy(numbers, notes->bytes + 16 + index * sizeof numbers, sizeof numbers);
  // The names follow all numbers, each with its zero.
  const uint8_t *name = notes->bytes + 16 + count * sizeof numbers, *end = notes->bytes + notes->size;
  for (size_t i = 0; i < index && name; i++) {
    name = memchr(name, 0, (size_t)(end - name));
    if (name) name++;
  }
  if (!name || !memchr(name, 0, (size_t)(end - name))) return (struct mapping){0};
  return (struct mapping){numbers[0], numbers[1], numbers[2] * page, (const char *)name};
}

// The file that a mapping was made from: where it can be opened now.
static void find_file(struct mapping mapping, bool is_executable, const char *executable, char file[longest_path]) {
  snprintf(file, longest_path, "%s", is_executable ? executable : mapping.path);
  if (!is_executable) coroutine_target_trim_path(file);
}

// Adds what is mapped from files, those behind the core file's own bytes, and the images among it. What was an image and is
// another build now, by the first page of it that the kernel keeps, says nothing of the process.
static bool add_mapped(struct target *target, const struct notes *notes, const char *executable_path,
                       const char *executable) {
  const char *previous = NULL;
  char path[longest_path];
  int file = -1;
  struct mapping mapping;
  for (size_t i = 0; (mapping = mapping_at(notes, i)).path; i++) {
    bool is_executable = executable_path && strcmp(mapping.path, executable_path) == 0;
    if (!previous || strcmp(previous, mapping.path) != 0) {
      find_file(mapping, is_executable, executable, path);
      struct coroutine_image_build build = coroutine_target_build(target, mapping.start);
      bool is_usable = !build.layout || coroutine_target_check_file(path, build) == target_file_right;
      file = is_usable ? coroutine_target_open_file(target, path) : -1;
    }
    previous = mapping.path;
    if (file >= 0 && !add_segment(target, mapping.start, mapping.end - mapping.start, file, mapping.offset)) return false;
  }
  qsort(target->segments + target->own_segments, target->segment_count - target->own_segments, sizeof(struct segment),
        by_start);
  for (size_t i = 0; (mapping = mapping_at(notes, i)).path; i++) {
    if (mapping.offset != 0) continue;
    bool is_executable = executable_path && strcmp(mapping.path, executable_path) == 0;
    find_file(mapping, is_executable, executable, path);
    enum target_file state = coroutine_target_check_file(path, coroutine_target_build(target, mapping.start));
    char name[longest_path];
    snprintf(name, sizeof name, "%s", mapping.path);
    coroutine_target_trim_path(name);
    if (coroutine_target_add_image(target, mapping.start, name, path, state))
      target->images[target->image_count - 1].is_executable = is_executable;
  }
  return true;
}

// The mapping that is the start of the executable; its path is NULL if there is none.
static struct mapping executables_mapping(const struct notes *notes) {
  const char *path = NULL;
  struct mapping mapping;
  for (size_t i = 0; (mapping = mapping_at(notes, i)).path; i++)
    if (mapping.start <= notes->program_headers && notes->program_headers < mapping.end) path = mapping.path;
  for (size_t i = 0; path && (mapping = mapping_at(notes, i)).path; i++)
    if (mapping.offset == 0 && strcmp(mapping.path, path) == 0) return mapping;
  return (struct mapping){0};
}

// MARK: The file

// How many program headers there are: more than 65,534 are counted elsewhere.
static uint64_t header_count(int file, const Elf64_Ehdr *header) {
  if (header->e_phnum != PN_XNUM) return header->e_phnum;
  Elf64_Shdr first;
  return read_exactly(file, header->e_shoff, &first, sizeof first) ? first.sh_info : 0;
}

// Reads the list of what is there, checks that it is, and reads the notes.
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
  *failure = target_failed_cut_short;
  *wants = header.e_phoff + count * sizeof(Elf64_Phdr);
  if (count == 0 || *wants > size) return false;
  *failure = target_failed_system;
  Elf64_Phdr *parts = calloc(count, sizeof *parts);
  if (!parts) return false;
  bool is_read = read_exactly(file, header.e_phoff, parts, count * sizeof *parts);
  for (uint64_t i = 0; i < count && is_read; i++) {
    if (parts[i].p_offset + parts[i].p_filesz > *wants) *wants = parts[i].p_offset + parts[i].p_filesz;
    if (parts[i].p_type == PT_LOAD) is_read = add_segment(target, parts[i].p_vaddr, parts[i].p_filesz, file, parts[i].p_offset);
  }
  target->own_segments = target->segment_count;
  qsort(target->segments, target->own_segments, sizeof(struct segment), by_start);
  if (is_read && *wants > size) {
    *failure = target_failed_cut_short;
    is_read = false;
  }
  for (uint64_t i = 0; i < count && is_read; i++) {
    if (parts[i].p_type != PT_NOTE || parts[i].p_filesz > longest_note) continue;
    uint8_t *bytes = malloc(parts[i].p_filesz);
    if (bytes && read_exactly(file, parts[i].p_offset, bytes, parts[i].p_filesz))
      read_notes(target, notes, bytes, parts[i].p_filesz);
    free(bytes);
  }
  free(parts);
  return is_read;
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
    is_open = read_core(target, file, *has, &notes, failure, wants);
  }
  if (is_open) {
    struct mapping mapping = executables_mapping(&notes);
    enum target_file state = coroutine_target_check_file(executable, coroutine_target_build(target, mapping.path ? mapping.start : 0));
    *failure = state == target_file_other_build ? target_failed_other_executable : target_failed_executable;
    is_open = state == target_file_right && add_mapped(target, &notes, mapping.path, executable);
  }
  int code = errno;
  free(notes.bytes);
  errno = code;
  if (is_open) {
    coroutine_target_name_images(target);
    return target;
  }
  coroutine_target_close(target);
  errno = code;
  return NULL;
}
