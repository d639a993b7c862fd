// A fuzz target of libFuzzer's: the reader of symbols and of debug information gets a file of any bytes.

#define _GNU_SOURCE 1
#include "memory_file.h"

#include "symbols.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
  static struct memory_file file;
  if (file.descriptor == 0) file = memory_file_create("library");
  memory_file_fill(&file, bytes, count);
  struct symbols *symbols = coroutine_symbols_open_empty();
  if (!symbols) return 0;
  struct coroutine_image_build any = {0};
  coroutine_symbols_add(symbols, 0, 1 << 20, 0, "library", file.path, any);
  struct symbol found[symbols_most];
  struct symbol_image image;
  // Where the kept libraries have code, closely; and further on.
  for (uintptr_t address = 0x200; address < 0x1800; address += 11) coroutine_symbols_find(symbols, address, &image, found);
  for (uintptr_t address = 0x1800; address < 1 << 20; address += 0x3001)
    coroutine_symbols_find(symbols, address, &image, found);
  coroutine_symbols_close(symbols);
  return 0;
}
