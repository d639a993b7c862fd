// A small executable and a core file of it, by which fuzzing begins.
#pragma once

#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/procfs.h>
#include <sys/user.h>

struct forged {
  uint8_t bytes[0x8000];
  size_t count;
};

enum { image_start = 0x400000, image_size = 0x3000, library_start = 0x500000, stack_start = 0x700000, stack_size = 0x1000 };

// The library has this name in the core file: a reader that opens it keeps the file at that descriptor.
enum { library_descriptor = 200 };
#define library_path "/proc/self/fd/200"

#if defined(__x86_64__)
enum { forged_machine = EM_X86_64 };
#elif defined(__aarch64__)
enum { forged_machine = EM_AARCH64 };
#endif

static inline void forged_append(struct forged *file, const void *bytes, size_t count) {
  memcpy(file->bytes + file->count, bytes, count);
  file->count += count;
}

static inline void forged_header(struct forged *file, uint16_t type, uint16_t parts) {
  Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                       .e_type = type,
                       .e_machine = forged_machine,
                       .e_version = EV_CURRENT,
                       .e_phoff = sizeof header,
                       .e_ehsize = sizeof header,
                       .e_phentsize = sizeof(Elf64_Phdr),
                       .e_phnum = parts,
                       .e_shentsize = sizeof(Elf64_Shdr)};
  forged_append(file, &header, sizeof header);
}

static inline void forged_part(struct forged *file, uint32_t type, uint32_t flags, uint64_t address, uint64_t offset,
                               uint64_t size, uint64_t memory) {
  Elf64_Phdr part = {.p_type = type, .p_flags = flags, .p_offset = offset, .p_vaddr = address, .p_filesz = size,
                     .p_memsz = memory, .p_align = 4096};
  forged_append(file, &part, sizeof part);
}

static inline void forged_note(struct forged *file, const char *owner, uint32_t type, const void *value, size_t size) {
  Elf64_Nhdr note = {.n_namesz = (uint32_t)strlen(owner) + 1, .n_descsz = (uint32_t)size, .n_type = type};
  forged_append(file, &note, sizeof note);
  forged_append(file, owner, note.n_namesz);
  file->count = (file->count + 3) & ~(size_t)3;
  forged_append(file, value, size);
  file->count = (file->count + 3) & ~(size_t)3;
}

// The executable: program headers, two notes, a dynamic section that leads to a list of libraries, and a table of call
// frame information without entries.
static inline struct forged forged_image(void) {
  struct forged file = {.count = 0};
  forged_header(&file, ET_DYN, 5);
  forged_part(&file, PT_LOAD, PF_R | PF_X, 0, 0, image_size, image_size);
  forged_part(&file, PT_NOTE, PF_R, 0x200, 0x200, 36, 36);
  forged_part(&file, PT_NOTE, PF_R, 0x240, 0x240, 32, 32);
  forged_part(&file, PT_DYNAMIC, PF_R, 0x300, 0x300, 32, 32);
  forged_part(&file, PT_GNU_EH_FRAME, PF_R, 0x400, 0x400, 32, 32);
  file.count = 0x200;
  uint64_t build[2] = {1, 2}, distance = 0x100;
  forged_note(&file, "GNU", NT_GNU_BUILD_ID, build, sizeof build);
  file.count = 0x240;
  forged_note(&file, "Coroutine", 1, &distance, sizeof distance);
  file.count = 0x300;
  Elf64_Dyn dynamic[2] = {{.d_tag = DT_DEBUG, .d_un.d_ptr = image_start + 0x500}, {.d_tag = DT_NULL}};
  forged_append(&file, dynamic, sizeof dynamic);
  file.count = 0x400;
  // One function, whose call frame information begins at 0x600.
  uint8_t table[12] = {1, 0x1b, 0x03, 0x3b, 0xfc, 1, 0, 0, 1, 0, 0, 0};
  int32_t entry[2] = {0x700 - 0x400, 0x618 - 0x400};
  forged_append(&file, table, sizeof table);
  forged_append(&file, entry, sizeof entry);
  file.count = 0x500;
  struct r_debug debug = {.r_version = 1, .r_map = (struct link_map *)(uintptr_t)(image_start + 0x580)};
  forged_append(&file, &debug, sizeof debug);
  file.count = 0x580;
  struct link_map library = {.l_addr = image_start, .l_name = (char *)(uintptr_t)(image_start + 0x5f0),
                             .l_ld = (ElfW(Dyn) *)(uintptr_t)(image_start + 0x300)};
  forged_append(&file, &library, sizeof library);
  file.count = 0x5f0;
  forged_append(&file, "/a/library", 11);
  file.count = 0x600;
  // A CIE and an FDE, for x86-64: the frame's address is the stack pointer and 16, the return address and the caller's
  // frame pointer lie below it.
  uint8_t cie[24] = {20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 16, 0x90, 1, 0x86, 2};
  uint8_t fde[24] = {20, 0, 0, 0, 28, 0, 0, 0, 0xe0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  forged_append(&file, cie, sizeof cie);
  forged_append(&file, fde, sizeof fde);
  file.count = 0x1000;
  return file;
}

// A core file of it, and of a library with the same contents: notes, the first part of each, a stack, and room that comes
// from their files.
static inline struct forged forged_core(void) {
  struct forged notes = {.count = 0}, file = {.count = 0}, image = forged_image();
  struct elf_prstatus status = {.pr_pid = 7};
  struct user_regs_struct general = {0};
#if defined(__x86_64__)
  general.rip = image_start + 0x710;
  general.rsp = stack_start + 0x800;
  general.rbp = stack_start + 0x800;
#elif defined(__aarch64__)
  general.pc = image_start + 0x710;
  general.sp = stack_start + 0x800;
  general.regs[29] = stack_start + 0x800;
#endif
  memcpy(&status.pr_reg, &general, sizeof general);
  struct elf_prpsinfo process = {.pr_pid = 7};
  Elf64_auxv_t auxiliary[2] = {{.a_type = AT_PHDR, .a_un.a_val = image_start + 64}, {.a_type = AT_NULL}};
  uint64_t numbers[] = {4, 4096,
                        image_start, image_start + 0x1000, 0,
                        image_start + 0x1000, image_start + image_size, 1,
                        library_start, library_start + 0x1000, 0,
                        library_start + 0x1000, library_start + image_size, 1};
  static const char names[] = "/a/file\0/a/file\0" library_path "\0" library_path;
  uint8_t files[sizeof numbers + sizeof names];
  memcpy(files, numbers, sizeof numbers);
  memcpy(files + sizeof numbers, names, sizeof names);
  forged_note(&notes, "CORE", NT_PRSTATUS, &status, sizeof status);
  forged_note(&notes, "CORE", NT_PRPSINFO, &process, sizeof process);
  forged_note(&notes, "CORE", NT_AUXV, auxiliary, sizeof auxiliary);
  forged_note(&notes, "CORE", NT_FILE, files, sizeof files);
  size_t place = 64 + 6 * sizeof(Elf64_Phdr);
  forged_header(&file, ET_CORE, 6);
  forged_part(&file, PT_NOTE, 0, 0, place, notes.count, 0);
  place += notes.count;
  forged_part(&file, PT_LOAD, PF_R | PF_X, image_start, place, image.count, 0x1000);
  place += image.count;
  forged_part(&file, PT_LOAD, PF_R | PF_X, image_start + 0x1000, place, 0, 0x2000);
  // The same bytes once more.
  forged_part(&file, PT_LOAD, PF_R | PF_X, library_start, place - image.count, image.count, 0x1000);
  forged_part(&file, PT_LOAD, PF_R | PF_X, library_start + 0x1000, place, 0, 0x2000);
  forged_part(&file, PT_LOAD, PF_R | PF_W, stack_start, place, stack_size, stack_size);
  forged_append(&file, notes.bytes, notes.count);
  forged_append(&file, image.bytes, image.count);
  uint64_t stack[stack_size / sizeof(uint64_t)] = {0};
  for (size_t i = 0x800 / 8; i < 0xf00 / 8; i += 2) {
    stack[i] = stack_start + i * 8 + 16;
    stack[i + 1] = image_start + 0x718;
  }
  forged_append(&file, stack, sizeof stack);
  return file;
}
