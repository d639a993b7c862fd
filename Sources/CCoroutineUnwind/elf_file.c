// SPDX-License-Identifier: Apache-2.0

#include "elf_file.h"

#include "regular_file.h"

#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// MARK: Functions

static int by_address(const void *left, const void *right) {
  uint64_t first = ((const struct elf_function *)left)->address, second = ((const struct elf_function *)right)->address;
  return (first > second) - (first < second);
}

// Takes the functions out of the symbol table of the given type, if there is one. By hand rather than by libdwfl, which
// goes through the whole table for each address.
static void read_functions(struct elf_file *file, uint32_t type) {
  for (Elf_Scn *section = NULL; (section = elf_nextscn(file->elf, section));) {
    GElf_Shdr header;
    if (!gelf_getshdr(section, &header) || header.sh_type != type) continue;
    Elf_Data *table = elf_getdata(section, NULL);
    size_t count = table ? table->d_size / sizeof(Elf64_Sym) : 0;
    file->functions = calloc(count, sizeof(struct elf_function));
    if (!file->functions) return;
    for (size_t i = 0; i < count; i++) {
      GElf_Sym symbol;
      if (!gelf_getsym(table, (int)i, &symbol)) break;
      if (GELF_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF) continue;
      const char *name = elf_strptr(file->elf, header.sh_link, symbol.st_name);
      if (!name) continue;
      file->functions[file->function_count++] = (struct elf_function){symbol.st_value, symbol.st_size, name};
    }
    break;
  }
  if (file->function_count > 0)
    qsort(file->functions, file->function_count, sizeof(struct elf_function), by_address);
}

const char *coroutine_elf_file_function(const struct elf_file *file, uint64_t address) {
  size_t low = 0, high = file->function_count;  // the last function that begins at the address or before it
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (file->functions[middle].address <= address) low = middle + 1; else high = middle;
  }
  if (low == 0) return NULL;
  const struct elf_function *function = &file->functions[low - 1];
  // Assembly may leave out the size.
  return function->size == 0 || address - function->address < function->size ? function->name : NULL;
}

// MARK: The file

static Elf *open_elf(const char *path) {
  int descriptor = coroutine_open_regular_file(path);
  if (descriptor < 0) return NULL;
  elf_version(EV_CURRENT);
  Elf *elf = elf_begin(descriptor, ELF_C_READ_MMAP, NULL);
  // All of it is in memory from here on: of a process with many libraries, each would hold a descriptor otherwise.
  size_t size;
  if (elf && (gelf_getclass(elf) != ELFCLASS64 || !elf_rawfile(elf, &size) || elf_cntl(elf, ELF_C_FDDONE) != 0)) {
    elf_end(elf);
    elf = NULL;
  }
  close(descriptor);
  return elf;
}

void coroutine_elf_file_open(struct elf_file *file, const char *path) {
  *file = (struct elf_file){.elf = open_elf(path)};
  if (!file->elf) return;
  read_functions(file, SHT_SYMTAB);
  // Stripped: what it exports is known still.
  if (file->function_count == 0) {
    free(file->functions);
    file->functions = NULL;
    read_functions(file, SHT_DYNSYM);
  }
}

void coroutine_elf_file_close(struct elf_file *file) {
  free(file->functions);
  elf_end(file->elf);
  *file = (struct elf_file){0};
}

// MARK: The build

static bool read_inside(void *context, uint64_t offset, void *to, size_t count) {
  size_t size = 0;
  const char *start = elf_rawfile(context, &size);
  if (!start || offset > size || count > size - offset) return false;
  memcpy(to, start + offset, count);
  return true;
}

struct coroutine_image_build coroutine_elf_file_build(const struct elf_file *file) {
  size_t count;
  const void *start = file->elf ? elf64_getphdr(file->elf) : NULL;
  if (!start || elf_getphdrnum(file->elf, &count) != 0 || count == 0) return (struct coroutine_image_build){0};
  // A copy: in a file that no linker has written they may lie at any address.
  Elf64_Phdr *headers = calloc(count, sizeof *headers);
  if (!headers) return (struct coroutine_image_build){0};
  memcpy(headers, start, count * sizeof *headers);
  struct coroutine_image_build build = coroutine_image_build(headers, count, true, 0, read_inside, file->elf);
  free(headers);
  return build;
}
