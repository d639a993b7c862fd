// SPDX-License-Identifier: Apache-2.0

#include "debug_info.h"

#include "make_room.h"

#include <dwarf.h>
#include <setjmp.h>
#include <sys/mman.h>

#include "CCoroutineSystem.h"

// MARK: Without memory

// libdw ends the process when it gets no memory, unless its handler does not return. A dump goes on without names.
static _Thread_local jmp_buf *lack_of_memory;

__attribute__((noreturn)) static void leave_libdw(void) { longjmp(*lack_of_memory, 1); }

// Some of libdw's tables abort where they cannot grow. All that it reads of a file takes less than the file's size: so
// a file is not read unless that much memory is free.
static bool is_memory_available(const struct elf_file *file) {
  size_t size = 0;
  elf_rawfile(file->elf, &size);
  void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  munmap(memory, size);
  return true;
}

// MARK: Ranges of addresses

// What a linker leaves in place of code that it dropped: 0, 1, or the last two addresses.
static bool is_code(uint64_t low, uint64_t high) { return low > 1 && low < high && high < UINT64_MAX - 1; }

static void add_ranges(struct debug_info *info, struct debug_ranges *ranges, Dwarf_Die *entry, uint64_t owner) {
  Dwarf_Addr base, low, high;
  for (ptrdiff_t next = 0; info->ranges_left > 0 && (next = dwarf_ranges(entry, next, &base, &low, &high)) > 0;) {
    info->ranges_left--;
    if (!is_code(low, high)) continue;
    if (!coroutine_make_room(&ranges->list, &ranges->capacity, ranges->count, sizeof(struct debug_range))) return;
    ranges->list[ranges->count++] = (struct debug_range){low, high, owner};
  }
}

static int by_start(const void *left, const void *right) {
  uint64_t first = ((const struct debug_range *)left)->low, second = ((const struct debug_range *)right)->low;
  return (first > second) - (first < second);
}

static void sort_ranges(struct debug_ranges *ranges) {
  if (ranges->count > 0) qsort(ranges->list, ranges->count, sizeof(struct debug_range), by_start);
}

static const struct debug_range *find_range(const struct debug_ranges *ranges, uint64_t address) {
  size_t low = 0, high = ranges->count;  // the last range that begins at the address or before it
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (ranges->list[middle].low <= address) low = middle + 1; else high = middle;
  }
  return low > 0 && address < ranges->list[low - 1].high ? &ranges->list[low - 1] : NULL;
}

// MARK: Units

static const char *string_of(Dwarf_Die *entry, unsigned name) {
  Dwarf_Attribute attribute;
  return dwarf_formstring(dwarf_attr(entry, name, &attribute));
}

// Swift writes no .debug_aranges, so `dwarf_addrdie` finds none of its units: here is a table of all units' code.
static void read_units(struct debug_info *info) {
  Dwarf_CU *unit = NULL;
  Dwarf_Die entry;
  uint8_t kind;
  while (dwarf_get_units(info->dwarf, unit, &unit, NULL, &kind, &entry, NULL) == 0) {
    if (kind != DW_UT_compile && kind != DW_UT_partial) continue;
    if (!coroutine_make_room(&info->units, &info->unit_capacity, info->unit_count, sizeof(struct debug_unit))) break;
    add_ranges(info, &info->code, &entry, info->unit_count);
    info->units[info->unit_count++] =
        (struct debug_unit){.entry = entry, .directory = string_of(&entry, DW_AT_comp_dir)};
  }
  sort_ranges(&info->code);
}

void coroutine_debug_info_open(struct debug_info *info, const struct elf_file *file) {
  *info = (struct debug_info){0};
  if (!file->elf || !is_memory_available(file)) return;
  info->dwarf = dwarf_begin_elf(file->elf, DWARF_C_READ, NULL);
  if (!info->dwarf) return;
  // An honest one takes two bytes of the file at least. (Fewer where its section is compressed. But then its function and its code
  // take some, too.)
  elf_rawfile(file->elf, &info->ranges_left);
  info->ranges_left /= 2;
  jmp_buf here;
  lack_of_memory = &here;
  dwarf_new_oom_handler(info->dwarf, leave_libdw);
  if (setjmp(here) == 0) read_units(info); else info->lacked_memory = true;
}

void coroutine_debug_info_close(struct debug_info *info) {
  for (size_t i = 0; i < info->unit_count; i++) free(info->units[i].functions.list);
  free(info->units);
  free(info->code.list);
  dwarf_end(info->dwarf);
  *info = (struct debug_info){0};
}

struct reading {
  struct debug_info *info;
  struct debug_unit *unit;
};

static int note_function(Dwarf_Die *entry, void *context) {
  struct reading *reading = context;
  add_ranges(reading->info, &reading->unit->functions, entry, dwarf_dieoffset(entry));
  return reading->info->ranges_left > 0 ? DWARF_CB_OK : DWARF_CB_ABORT;
}

// libdw reads lines in a frame of 149 KiB, which it does not probe: more than a coroutine has left, and enough to step over the
// guard below. So a thread of its own does that.
static void *read_lines(void *argument) {
  struct reading *reading = argument;
  struct debug_unit *unit = reading->unit;
  jmp_buf here;
  lack_of_memory = &here;
  size_t file_count;
  if (setjmp(here) != 0) {
    reading->info->lacked_memory = true;
    unit->line_count = 0;
    unit->files = NULL;
    return NULL;
  }
  if (dwarf_getsrclines(&unit->entry, &unit->lines, &unit->line_count) != 0) unit->line_count = 0;
  if (dwarf_getsrcfiles(&unit->entry, &unit->files, &file_count) != 0) unit->files = NULL;
  return NULL;
}

// With the program. Later another thread may hold the loader's lock for long.
__attribute__((constructor)) static void keep_loaded(void) { coroutine_system_keep_loaded((const void *)read_lines); }

// Without a thread the unit has no lines.
static void read_unit(struct debug_info *info, struct debug_unit *unit) {
  if (unit->was_read) return;
  unit->was_read = true;
  struct reading reading = {info, unit};
  dwarf_getfuncs(&unit->entry, note_function, &reading, 0);
  sort_ranges(&unit->functions);
  coroutine_system_thread thread;
  if (coroutine_system_create_thread(&thread, read_lines, &reading) == 0) coroutine_system_join_thread(thread);
}

// MARK: Lines

static uint64_t line_address(const struct debug_unit *unit, size_t index) {
  Dwarf_Addr address = 0;
  dwarf_lineaddr(dwarf_onesrcline(unit->lines, index), &address);
  return address;
}

static bool ends_sequence(Dwarf_Line *line) {
  bool ends = true;
  dwarf_lineendsequence(line, &ends);
  return ends;
}

static int line_number(Dwarf_Line *line) {
  int number = 0;
  dwarf_lineno(line, &number);
  return number;
}

// Fills in file, line and column of an address in a function, or leaves them.
static void find_line(const struct debug_unit *unit, uint64_t address, uint64_t function_end, struct symbol *symbol) {
  size_t low = 0, high = unit->line_count;  // the last row at the address or before it
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (line_address(unit, middle) <= address) low = middle + 1; else high = middle;
  }
  if (low == 0) return;
  Dwarf_Line *line = dwarf_onesrcline(unit->lines, low - 1);
  if (ends_sequence(line)) return;
  const char *file = dwarf_linesrc(line, NULL, NULL);
  // No line: the compiler made this code for the line that follows, as it makes a loop's call of `next()`.
  for (size_t next = low; line_number(line) == 0 && next < unit->line_count; next++) {
    Dwarf_Line *following = dwarf_onesrcline(unit->lines, next);
    if (ends_sequence(following) || line_address(unit, next) >= function_end) break;
    if (dwarf_linesrc(following, NULL, NULL) != file) break;
    line = following;
  }
  int column = 0;
  dwarf_linecol(line, &column);
  symbol->file = file;
  symbol->directory = unit->directory;
  symbol->line = (uint32_t)line_number(line);
  symbol->column = (uint32_t)column;
}

// MARK: Functions

// The linkage name of a function or of an inlined call of it, by way of what it refers to.
static const char *function_name(Dwarf_Die *entry) {
  Dwarf_Attribute attribute;
  Dwarf_Attribute *name = dwarf_attr_integrate(entry, DW_AT_linkage_name, &attribute);
  if (!name) name = dwarf_attr_integrate(entry, DW_AT_name, &attribute);
  return dwarf_formstring(name);
}

// Descends from a function's entry to the innermost inlined call at an address. Writes those calls, outermost first,
// and returns how many. By hand, since `dwarf_getscopes` goes through the whole unit for each address.
static size_t inlined_calls(Dwarf_Die *function, uint64_t address, Dwarf_Die calls[symbols_most - 1]) {
  size_t count = 0;
  Dwarf_Die entry;
  int end = dwarf_child(function, &entry);
  while (end == 0) {
    int tag = dwarf_tag(&entry);
    bool is_call = tag == DW_TAG_inlined_subroutine;
    if ((is_call || tag == DW_TAG_lexical_block) && dwarf_haspc(&entry, address) > 0) {
      if (is_call && count == symbols_most - 1) break;
      if (is_call) calls[count++] = entry;
      Dwarf_Die outer = entry;
      end = dwarf_child(&outer, &entry);
    } else {
      Dwarf_Die before = entry;
      end = dwarf_siblingof(&before, &entry);
    }
  }
  return count;
}

static uint32_t number_of(Dwarf_Die *entry, unsigned name) {
  Dwarf_Attribute attribute;
  Dwarf_Word number = 0;
  dwarf_formudata(dwarf_attr(entry, name, &attribute), &number);
  return (uint32_t)number;
}

// Where a call stands.
static struct symbol call_site(const struct debug_unit *unit, Dwarf_Die *call) {
  const char *file = unit->files ? dwarf_filesrc(unit->files, number_of(call, DW_AT_call_file), NULL, NULL) : NULL;
  return (struct symbol){.file = file,
                         .directory = unit->directory,
                         .line = number_of(call, DW_AT_call_line),
                         .column = number_of(call, DW_AT_call_column)};
}

static size_t find(struct debug_info *info, uint64_t address, struct symbol found[symbols_most]) {
  const struct debug_range *code = find_range(&info->code, address);
  if (!code) return 1;
  struct debug_unit *unit = &info->units[code->owner];
  read_unit(info, unit);
  Dwarf_Die function, calls[symbols_most - 1];
  const struct debug_range *range = find_range(&unit->functions, address);
  bool is_known = range && dwarf_offdie(info->dwarf, range->owner, &function);
  size_t count = is_known ? inlined_calls(&function, address, calls) : 0;

  // Each call stands in the function around it: the innermost function is at the address's line, each other one at the
  // line of the call that it makes.
  find_line(unit, address, range ? range->high : address, &found[0]);
  for (size_t i = 0; i < count; i++) {
    Dwarf_Die *call = &calls[count - 1 - i];
    found[i].function = function_name(call);
    found[i + 1] = call_site(unit, call);
  }
  if (is_known) found[count].function = function_name(&function);
  return count + 1;
}

size_t coroutine_debug_info_find(struct debug_info *info, uint64_t address, struct symbol found[symbols_most]) {
  found[0] = (struct symbol){0};
  if (!info->dwarf || info->lacked_memory) return 1;
  jmp_buf here;
  lack_of_memory = &here;
  if (setjmp(here) == 0) return find(info, address, found);
  info->lacked_memory = true;
  found[0] = (struct symbol){0};
  return 1;
}
