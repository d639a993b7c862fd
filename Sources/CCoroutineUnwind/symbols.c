// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE 1
#include "symbols.h"

#include "debug_info.h"
#include "make_room.h"

#include <link.h>
#include <unistd.h>

// A file that was opened for its names: once, however many images it is of.
struct opened {
  char *path;
  struct elf_file elf;
  bool is_right;  // an image has been found to be its build: the next field is there
  struct debug_info info;
};

// One executable or library.
struct image {
  uintptr_t start, end;  // the addresses that it takes
  uintptr_t shift;       // an address less this is the address as the file counts
  char *path;            // as the process knows it; NULL without memory
  char *file;            // where it can be opened; NULL without memory
  struct coroutine_image_build build;
  bool was_looked_for;
  struct opened *opened;  // NULL: it has no file, or that is another build
};

struct symbols {
  struct image *list;
  size_t count, capacity;
  bool is_sorted;  // by where they start
  struct opened **opened;
  size_t opened_count, opened_capacity;
};

static char *path_of_executable(void) {
  enum { longest = 4096 };
  char *path = calloc(1, longest);
  if (path && readlink("/proc/self/exe", path, longest - 1) > 0) return path;
  free(path);
  return NULL;
}

bool coroutine_symbols_add(struct symbols *symbols, uintptr_t start, uintptr_t end, uintptr_t shift, const char *path,
                 const char *file, struct coroutine_image_build build) {
  if (!coroutine_make_room(&symbols->list, &symbols->capacity, symbols->count, sizeof(struct image))) return false;
  symbols->is_sorted = false;
  symbols->list[symbols->count++] = (struct image){
      .start = start, .end = end, .shift = shift, .path = path ? strdup(path) : NULL, .file = file ? strdup(file) : NULL,
      .build = build};
  return true;
}

// Reads parts of a library as it was loaded: not all that its headers name need be there.
static bool read_loaded(void *context, uint64_t address, void *to, size_t count) {
  const struct dl_phdr_info *loaded = context;
  for (int i = 0; i < loaded->dlpi_phnum; i++) {
    const ElfW(Phdr) *part = &loaded->dlpi_phdr[i];
    uint64_t start = loaded->dlpi_addr + part->p_vaddr;
    if (part->p_type != PT_LOAD || !(part->p_flags & PF_R) || address < start || count > part->p_filesz ||
        address - start > part->p_filesz - count)
      continue;
    memcpy(to, (const void *)(uintptr_t)address, count);
    return true;
  }
  return false;
}

static int add_image(struct dl_phdr_info *loaded, size_t size, void *context) {
  (void)size;
  struct symbols *symbols = context;
  uintptr_t first = UINTPTR_MAX, last = 0;
  for (int i = 0; i < loaded->dlpi_phnum; i++) {
    if (loaded->dlpi_phdr[i].p_type != PT_LOAD) continue;
    uintptr_t start = loaded->dlpi_addr + loaded->dlpi_phdr[i].p_vaddr;
    uintptr_t end = start + loaded->dlpi_phdr[i].p_memsz;
    if (start < first) first = start;
    if (end > last) last = end;
  }
  struct coroutine_image_build build =
      coroutine_image_build(loaded->dlpi_phdr, loaded->dlpi_phnum, false, loaded->dlpi_addr, read_loaded, loaded);
  // Another library may lie there since this one was loaded.
  if (loaded->dlpi_name && *loaded->dlpi_name)
    return !coroutine_symbols_add(symbols, first, last, loaded->dlpi_addr, loaded->dlpi_name, loaded->dlpi_name, build);
  // The executable has no name in the loader's list. This one leads to the file that runs, even if another one has taken
  // its place since.
  char *path = path_of_executable();
  bool added = coroutine_symbols_add(symbols, first, last, loaded->dlpi_addr, path, "/proc/self/exe", build);
  free(path);
  return !added;
}

struct symbols *coroutine_symbols_open_empty(void) { return calloc(1, sizeof(struct symbols)); }

struct symbols *coroutine_symbols_open(void) {
  struct symbols *symbols = coroutine_symbols_open_empty();
  if (symbols) dl_iterate_phdr(add_image, symbols);
  return symbols;
}

void coroutine_symbols_close(struct symbols *symbols) {
  for (size_t i = 0; i < symbols->count; i++) {
    free(symbols->list[i].path);
    free(symbols->list[i].file);
  }
  for (size_t i = 0; i < symbols->opened_count; i++) {
    struct opened *opened = symbols->opened[i];
    if (opened->is_right) coroutine_debug_info_close(&opened->info);
    coroutine_elf_file_close(&opened->elf);
    free(opened->path);
    free(opened);
  }
  free(symbols->opened);
  free(symbols->list);
  free(symbols);
}

static int by_start(const void *left, const void *right) {
  uintptr_t first = ((const struct image *)left)->start, second = ((const struct image *)right)->start;
  return (first > second) - (first < second);
}

// The image around an address: of those that overlap, which only a forged core file has, the one that starts last.
static struct image *image_at(struct symbols *symbols, uintptr_t address) {
  if (!symbols->is_sorted && symbols->count > 0) qsort(symbols->list, symbols->count, sizeof *symbols->list, by_start);
  symbols->is_sorted = true;
  size_t low = 0, high = symbols->count;  // the first one that starts behind the address
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (symbols->list[middle].start <= address) low = middle + 1; else high = middle;
  }
  return low > 0 && address < symbols->list[low - 1].end && symbols->list[low - 1].path ? &symbols->list[low - 1] : NULL;
}

// Opens the file of an image, unless it is open already. NULL: that is impossible, or it is another build.
static struct opened *opened_file(struct symbols *symbols, const struct image *image) {
  struct opened *opened = NULL;
  for (size_t i = 0; image->file && i < symbols->opened_count && !opened; i++)
    if (strcmp(symbols->opened[i]->path, image->file) == 0) opened = symbols->opened[i];
  if (!opened) {
    if (!image->file ||
        !coroutine_make_room(&symbols->opened, &symbols->opened_capacity, symbols->opened_count, sizeof(struct opened *)))
      return NULL;
    opened = calloc(1, sizeof *opened);
    char *path = strdup(image->file);
    if (!opened || !path) {
      free(opened);
      free(path);
      return NULL;
    }
    opened->path = path;
    symbols->opened[symbols->opened_count++] = opened;
    coroutine_elf_file_open(&opened->elf, path);
  }
  if (!image_build_is(coroutine_elf_file_build(&opened->elf), image->build)) return NULL;
  if (!opened->is_right) coroutine_debug_info_open(&opened->info, &opened->elf);
  opened->is_right = true;
  return opened;
}

size_t coroutine_symbols_find(struct symbols *symbols, uintptr_t return_address, struct symbol_image *found_in,
                    struct symbol found[symbols_most]) {
  *found_in = (struct symbol_image){0};
  found[0] = (struct symbol){0};
  uintptr_t address = return_address - 1;
  struct image *image = image_at(symbols, address);
  if (!image) return 1;
  if (!image->was_looked_for) {
    image->was_looked_for = true;
    image->opened = opened_file(symbols, image);
  }
  *found_in = (struct symbol_image){image->path, return_address - image->shift};
  if (!image->opened) return 1;
  size_t count = coroutine_debug_info_find(&image->opened->info, address - image->shift, found);
  // If several object files have copies of a function, such as specialisations of generic ones, the linker keeps all
  // and names one. Assembly, and code that was built without debug information, is in the symbol table alone.
  const char *name = coroutine_elf_file_function(&image->opened->elf, address - image->shift);
  if (name) found[count - 1].function = name;
  return count;
}

bool coroutine_symbols_find_image(struct symbols *symbols, uintptr_t address, struct symbol_image *found) {
  const struct image *image = image_at(symbols, address);
  if (image) *found = (struct symbol_image){image->path, address - image->shift};
  return image;
}
