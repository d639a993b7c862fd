// SPDX-License-Identifier: Apache-2.0

// Debug information, read by libdw: leads from an address to functions, files and lines.
//
// A unit is read when an address in it is looked up for the first time: the list of its functions, and its line table.
#pragma once

#include "elf_file.h"
#include "symbols.h"

#include <elfutils/libdw.h>

struct debug_range {
  uint64_t low, high;
  uint64_t owner;  // of a unit's code: its index; of a function's: its entry's offset
};

struct debug_ranges {
  struct debug_range *list;  // sorted by `low` once it is complete
  size_t count, capacity;
};

struct debug_unit {
  Dwarf_Die entry;
  const char *directory;
  bool was_read;  // what follows
  struct debug_ranges functions;
  Dwarf_Lines *lines;
  size_t line_count;
  Dwarf_Files *files;  // NULL: there are none
};

// The debug information of one file.
struct debug_info {
  Dwarf *dwarf;  // NULL: there is none
  struct debug_unit *units;
  size_t unit_count, unit_capacity;
  struct debug_ranges code;  // of all units
  size_t ranges_left;        // how many more ranges are read: many entries may name the same long list
  bool lacked_memory;        // what libdw has read is incomplete: nothing more is looked up
};

// Finds the units. Without debug information there are none. The file must stay open.
void coroutine_debug_info_open(struct debug_info *info, const struct elf_file *file);
void coroutine_debug_info_close(struct debug_info *info);

// Finds the functions at an address as the file counts. `found[0...]` are those that were inlined, innermost first; the
// last one is the function that they were inlined into. Returns how many there are, at least 1.
size_t coroutine_debug_info_find(struct debug_info *info, uint64_t address, struct symbol found[symbols_most]);
