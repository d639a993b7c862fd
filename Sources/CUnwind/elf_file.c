#include "elf_file.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const Elf64_Ehdr *header(const struct elf_file *file) { return (const Elf64_Ehdr *)file->start; }

static bool is_inside(const struct elf_file *file, uint64_t offset, uint64_t size) {
  return offset <= file->size && size <= file->size - offset;
}

// Section headers lie aligned in any file that a linker wrote; others are refused.
static const Elf64_Shdr *section_headers(const struct elf_file *file, size_t *count) {
  const Elf64_Ehdr *elf = header(file);
  *count = elf->e_shnum;
  if (elf->e_shentsize != sizeof(Elf64_Shdr) || elf->e_shoff % _Alignof(Elf64_Shdr) != 0 ||
      !is_inside(file, elf->e_shoff, (uint64_t)*count * sizeof(Elf64_Shdr)))
    *count = 0;
  return (const Elf64_Shdr *)(file->start + elf->e_shoff);
}

static struct elf_section contents(const struct elf_file *file, const Elf64_Shdr *section) {
  if (section->sh_type == SHT_NOBITS || section->sh_flags & SHF_COMPRESSED ||
      !is_inside(file, section->sh_offset, section->sh_size))
    return (struct elf_section){0};
  return (struct elf_section){file->start + section->sh_offset, section->sh_size};
}

static const char *string_at(struct elf_section strings, uint64_t offset) {
  struct bytes bytes = bytes_from(strings.start, strings.size, offset);
  return bytes_string(&bytes);
}

struct elf_section elf_section(const struct elf_file *file, const char *name) {
  if (!file->start) return (struct elf_section){0};
  size_t count;
  const Elf64_Shdr *sections = section_headers(file, &count);
  if (header(file)->e_shstrndx >= count) return (struct elf_section){0};
  struct elf_section names = contents(file, &sections[header(file)->e_shstrndx]);
  for (size_t i = 0; i < count; i++) {
    const char *found = string_at(names, sections[i].sh_name);
    if (found && strcmp(found, name) == 0) return contents(file, &sections[i]);
  }
  return (struct elf_section){0};
}

// MARK: Functions

static int by_address(const void *left, const void *right) {
  uint64_t first = ((const struct elf_function *)left)->address, second = ((const struct elf_function *)right)->address;
  return (first > second) - (first < second);
}

// Takes the functions out of the symbol table of the given type, if there is one.
static void read_functions(struct elf_file *file, uint32_t type) {
  size_t count;
  const Elf64_Shdr *sections = section_headers(file, &count);
  for (size_t i = 0; i < count; i++) {
    if (sections[i].sh_type != type || sections[i].sh_link >= count) continue;
    struct elf_section table = contents(file, &sections[i]);
    struct elf_section strings = contents(file, &sections[sections[i].sh_link]);
    const Elf64_Sym *symbols = (const Elf64_Sym *)table.start;
    size_t symbol_count = table.size / sizeof(Elf64_Sym);
    if ((uintptr_t)symbols % _Alignof(Elf64_Sym) != 0 || !symbols) continue;
    file->functions = malloc(symbol_count * sizeof(struct elf_function));
    if (!file->functions) return;
    for (size_t j = 0; j < symbol_count; j++) {
      const char *name = string_at(strings, symbols[j].st_name);
      if (ELF64_ST_TYPE(symbols[j].st_info) != STT_FUNC || symbols[j].st_shndx == SHN_UNDEF || !name) continue;
      file->functions[file->function_count++] =
          (struct elf_function){symbols[j].st_value, symbols[j].st_size, name};
    }
    break;
  }
  if (file->function_count > 0)
    qsort(file->functions, file->function_count, sizeof(struct elf_function), by_address);
}

const char *elf_function_name(const struct elf_file *file, uint64_t address) {
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

void elf_open(struct elf_file *file, const char *path) {
  *file = (struct elf_file){0};
  int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return;
  struct stat status;
  if (fstat(descriptor, &status) == 0 && status.st_size >= (off_t)sizeof(Elf64_Ehdr)) {
    void *mapped = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (mapped != MAP_FAILED) {
      file->start = mapped;
      file->size = (size_t)status.st_size;
    }
  }
  close(descriptor);
  if (!file->start) return;
  const Elf64_Ehdr *elf = header(file);
  if (memcmp(elf->e_ident, ELFMAG, SELFMAG) != 0 || elf->e_ident[EI_CLASS] != ELFCLASS64 ||
      elf->e_ident[EI_DATA] != ELFDATA2LSB) {
    elf_close(file);
    return;
  }
  read_functions(file, SHT_SYMTAB);
  // Stripped: what it exports is known still.
  if (file->function_count == 0) {
    free(file->functions);
    file->functions = NULL;
    read_functions(file, SHT_DYNSYM);
  }
}

void elf_close(struct elf_file *file) {
  free(file->functions);
  if (file->start) munmap((void *)file->start, file->size);
  *file = (struct elf_file){0};
}

// MARK: The build

static bool read_inside(void *context, uint64_t place, void *to, size_t count) {
  const struct elf_file *file = context;
  if (!is_inside(file, place, count)) return false;
  memcpy(to, file->start + place, count);
  return true;
}

struct image_build elf_build(const struct elf_file *file) {
  if (!file->start) return (struct image_build){0};
  const Elf64_Ehdr *elf = header(file);
  if (elf->e_phentsize != sizeof(Elf64_Phdr) || elf->e_phoff % _Alignof(Elf64_Phdr) != 0 ||
      !is_inside(file, elf->e_phoff, (uint64_t)elf->e_phnum * sizeof(Elf64_Phdr)))
    return (struct image_build){0};
  return image_build((const Elf64_Phdr *)(file->start + elf->e_phoff), elf->e_phnum, true, 0, read_inside, (void *)file);
}
