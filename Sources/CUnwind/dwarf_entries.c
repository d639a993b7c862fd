// The entries of .debug_info: values, abbreviations, units, functions, and what was inlined into them.

#include "dwarf.h"

// MARK: Values

static struct bytes section_bytes(struct elf_section section, uint64_t offset) {
  return bytes_from(section.start, section.size, offset);
}

static const char *section_string(struct elf_section section, uint64_t offset) {
  struct bytes bytes = section_bytes(section, offset);
  return bytes_string(&bytes);
}

static uint64_t indexed_address(const struct dwarf *dwarf, const struct dwarf_unit *unit, uint64_t index) {
  struct bytes bytes = section_bytes(dwarf->addr, unit->addr_base + index * 8);
  return bytes_number(&bytes, 8);
}

static const char *indexed_string(const struct dwarf *dwarf, const struct dwarf_unit *unit, uint64_t index) {
  struct bytes bytes = section_bytes(dwarf->str_offsets, unit->str_offsets_base + index * 4);
  uint64_t offset = bytes_number(&bytes, 4);
  return bytes.broken ? NULL : section_string(dwarf->str, offset);
}

struct dwarf_value dwarf_read_value(const struct dwarf *dwarf, const struct dwarf_unit *unit, struct bytes *bytes,
                                    uint64_t form, int64_t implicit) {
  struct dwarf_value value = {.form = (uint16_t)form};
  switch (form) {
    case DW_FORM_flag_present: value.number = 1; break;
    case DW_FORM_implicit_const: value.number = (uint64_t)implicit; break;
    case DW_FORM_data1: case DW_FORM_flag: value.number = bytes_number(bytes, 1); break;
    case DW_FORM_data2: value.number = bytes_number(bytes, 2); break;
    case DW_FORM_data4: case DW_FORM_sec_offset: value.number = bytes_number(bytes, 4); break;
    case DW_FORM_data8: case DW_FORM_addr: case DW_FORM_ref_sig8: value.number = bytes_number(bytes, 8); break;
    case DW_FORM_udata: case DW_FORM_loclistx: case DW_FORM_rnglistx: value.number = bytes_uleb(bytes); break;
    case DW_FORM_sdata: value.number = (uint64_t)bytes_sleb(bytes); break;
    case DW_FORM_data16: bytes_take(bytes, 16); break;

    case DW_FORM_addrx: value.number = indexed_address(dwarf, unit, bytes_uleb(bytes)); break;
    case DW_FORM_addrx1: case DW_FORM_addrx2: case DW_FORM_addrx3: case DW_FORM_addrx4:
      value.number = indexed_address(dwarf, unit, bytes_number(bytes, (unsigned)(form - DW_FORM_addrx1 + 1)));
      break;

    // References count from the unit's start, but for ref_addr: all are made to count from the section's.
    case DW_FORM_ref1: value.number = unit->offset + bytes_number(bytes, 1); break;
    case DW_FORM_ref2: value.number = unit->offset + bytes_number(bytes, 2); break;
    case DW_FORM_ref4: value.number = unit->offset + bytes_number(bytes, 4); break;
    case DW_FORM_ref8: value.number = unit->offset + bytes_number(bytes, 8); break;
    case DW_FORM_ref_udata: value.number = unit->offset + bytes_uleb(bytes); break;
    case DW_FORM_ref_addr: value.number = bytes_number(bytes, 4); break;

    case DW_FORM_string: value.string = bytes_string(bytes); break;
    case DW_FORM_strp: value.string = section_string(dwarf->str, bytes_number(bytes, 4)); break;
    case DW_FORM_line_strp: value.string = section_string(dwarf->line_str, bytes_number(bytes, 4)); break;
    case DW_FORM_strx: value.string = indexed_string(dwarf, unit, bytes_uleb(bytes)); break;
    case DW_FORM_strx1: case DW_FORM_strx2: case DW_FORM_strx3: case DW_FORM_strx4:
      value.string = indexed_string(dwarf, unit, bytes_number(bytes, (unsigned)(form - DW_FORM_strx1 + 1)));
      break;

    case DW_FORM_block1: bytes_take(bytes, bytes_number(bytes, 1)); break;
    case DW_FORM_block2: bytes_take(bytes, bytes_number(bytes, 2)); break;
    case DW_FORM_block4: bytes_take(bytes, bytes_number(bytes, 4)); break;
    case DW_FORM_block: case DW_FORM_exprloc: bytes_take(bytes, bytes_uleb(bytes)); break;

    default:
      bytes->at = bytes->end;
      bytes->broken = true;
  }
  return value;
}

// MARK: Entries

// The attributes of an entry that matter here. A form of 0 says that one is not there.
struct entry {
  uint64_t tag;  // 0: not an entry, but the end of a list of children
  bool has_children;
  struct dwarf_value name, linkage_name, low_pc, high_pc, ranges, origin, call_file, call_line, call_column;
  // Of a unit's own entry only.
  struct dwarf_value lines_offset, directory, str_offsets_base, addr_base, rnglists_base;
};

static const struct dwarf_abbreviation *abbreviation(const struct dwarf_unit *unit, uint64_t code) {
  const struct dwarf_abbreviations *all = unit->abbreviations;
  // Compilers count from 1.
  if (code >= 1 && code <= all->count && all->list[code - 1].code == code) return &all->list[code - 1];
  for (size_t i = 0; i < all->count; i++)
    if (all->list[i].code == code) return &all->list[i];
  return NULL;
}

static struct dwarf_value *place(struct entry *entry, uint64_t attribute) {
  switch (attribute) {
    case DW_AT_name: return &entry->name;
    case DW_AT_linkage_name: return &entry->linkage_name;
    case DW_AT_low_pc: return &entry->low_pc;
    case DW_AT_high_pc: return &entry->high_pc;
    case DW_AT_ranges: return &entry->ranges;
    case DW_AT_abstract_origin: case DW_AT_specification: return &entry->origin;
    case DW_AT_call_file: return &entry->call_file;
    case DW_AT_call_line: return &entry->call_line;
    case DW_AT_call_column: return &entry->call_column;
    case DW_AT_stmt_list: return &entry->lines_offset;
    case DW_AT_comp_dir: return &entry->directory;
    case DW_AT_str_offsets_base: return &entry->str_offsets_base;
    case DW_AT_addr_base: return &entry->addr_base;
    case DW_AT_rnglists_base: return &entry->rnglists_base;
    default: return NULL;
  }
}

static struct entry read_entry(const struct dwarf *dwarf, const struct dwarf_unit *unit, struct bytes *bytes) {
  struct entry entry = {0};
  uint64_t code = bytes_uleb(bytes);
  if (code == 0) return entry;
  const struct dwarf_abbreviation *kind = abbreviation(unit, code);
  if (!kind) {
    bytes->at = bytes->end;
    bytes->broken = true;
    return entry;
  }
  entry.tag = kind->tag;
  entry.has_children = kind->has_children;
  struct bytes list = section_bytes(dwarf->abbrev, (uint64_t)(kind->attributes - dwarf->abbrev.start));
  for (;;) {
    uint64_t attribute = bytes_uleb(&list), form = bytes_uleb(&list);
    if (attribute == 0 || bytes->broken) return entry;
    int64_t implicit = form == DW_FORM_implicit_const ? bytes_sleb(&list) : 0;
    struct dwarf_value value = dwarf_read_value(dwarf, unit, bytes, form, implicit);
    struct dwarf_value *kept = place(&entry, attribute);
    if (kept) *kept = value;
  }
}

// MARK: Ranges of addresses

// What a linker leaves in place of code that it dropped: 0, 1, or the last two addresses.
static bool is_code(uint64_t low, uint64_t high) { return low > 1 && low < high && high < UINT64_MAX - 1; }

static void add_range(struct dwarf_ranges *ranges, uint64_t low, uint64_t high, uint64_t owner) {
  if (!is_code(low, high) || !make_room(&ranges->list, &ranges->capacity, ranges->count, sizeof(struct dwarf_range)))
    return;
  ranges->list[ranges->count++] = (struct dwarf_range){low, high, owner};
}

// .debug_ranges of DWARF 4: pairs of addresses, relative to a base.
static void add_range_pairs(const struct dwarf *dwarf, const struct dwarf_unit *unit, uint64_t offset,
                            struct dwarf_ranges *ranges, uint64_t owner) {
  struct bytes bytes = section_bytes(dwarf->ranges, offset);
  uint64_t base = unit->low_pc;
  for (;;) {
    uint64_t low = bytes_number(&bytes, 8), high = bytes_number(&bytes, 8);
    if (bytes.broken || (low == 0 && high == 0)) return;
    if (low == UINT64_MAX) base = high; else add_range(ranges, base + low, base + high, owner);
  }
}

// .debug_rnglists of DWARF 5: coded entries.
static void add_range_list(const struct dwarf *dwarf, const struct dwarf_unit *unit, struct dwarf_value list,
                           struct dwarf_ranges *ranges, uint64_t owner) {
  uint64_t offset = list.number;
  if (list.form == DW_FORM_rnglistx) {
    struct bytes table = section_bytes(dwarf->rnglists, unit->rnglists_base + list.number * 4);
    offset = unit->rnglists_base + bytes_number(&table, 4);
  }
  struct bytes bytes = section_bytes(dwarf->rnglists, offset);
  uint64_t base = unit->low_pc;
  while (bytes_left(&bytes)) {
    enum { end_of_list, base_addressx, startx_endx, startx_length, offset_pair, base_address, start_end, start_length };
    uint64_t low, high;
    switch (bytes_number(&bytes, 1)) {
      case base_addressx: base = indexed_address(dwarf, unit, bytes_uleb(&bytes)); continue;
      case base_address: base = bytes_number(&bytes, 8); continue;
      case startx_endx:
        low = indexed_address(dwarf, unit, bytes_uleb(&bytes));
        high = indexed_address(dwarf, unit, bytes_uleb(&bytes));
        break;
      case startx_length:
        low = indexed_address(dwarf, unit, bytes_uleb(&bytes));
        high = low + bytes_uleb(&bytes);
        break;
      case offset_pair:
        low = base + bytes_uleb(&bytes);
        high = base + bytes_uleb(&bytes);
        break;
      case start_end:
        low = bytes_number(&bytes, 8);
        high = bytes_number(&bytes, 8);
        break;
      case start_length:
        low = bytes_number(&bytes, 8);
        high = low + bytes_uleb(&bytes);
        break;
      default: return;  // end_of_list, or nothing that we know
    }
    add_range(ranges, low, high, owner);
  }
}

// Adds the addresses of an entry.
static void add_ranges(const struct dwarf *dwarf, const struct dwarf_unit *unit, const struct entry *entry,
                       struct dwarf_ranges *ranges, uint64_t owner) {
  if (entry->ranges.form != 0) {
    if (unit->version >= 5)
      add_range_list(dwarf, unit, entry->ranges, ranges, owner);
    else
      add_range_pairs(dwarf, unit, entry->ranges.number, ranges, owner);
  } else if (entry->low_pc.form != 0 && entry->high_pc.form != 0) {
    uint64_t low = entry->low_pc.number, high = entry->high_pc.number;
    add_range(ranges, low, entry->high_pc.form == DW_FORM_addr ? high : low + high, owner);
  }
}

static bool contains(const struct dwarf *dwarf, const struct dwarf_unit *unit, const struct entry *entry,
                     struct dwarf_ranges *scratch, uint64_t address) {
  scratch->count = 0;
  add_ranges(dwarf, unit, entry, scratch, 0);
  for (size_t i = 0; i < scratch->count; i++)
    if (scratch->list[i].low <= address && address < scratch->list[i].high) return true;
  return false;
}

static int by_start(const void *left, const void *right) {
  uint64_t first = ((const struct dwarf_range *)left)->low, second = ((const struct dwarf_range *)right)->low;
  return (first > second) - (first < second);
}

static void sort_ranges(struct dwarf_ranges *ranges) {
  if (ranges->count > 0) qsort(ranges->list, ranges->count, sizeof(struct dwarf_range), by_start);
}

static const struct dwarf_range *find_range(const struct dwarf_ranges *ranges, uint64_t address) {
  size_t low = 0, high = ranges->count;  // the last range that begins at the address or before it
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (ranges->list[middle].low <= address) low = middle + 1; else high = middle;
  }
  return low > 0 && address < ranges->list[low - 1].high ? &ranges->list[low - 1] : NULL;
}

// MARK: Units

static const struct dwarf_abbreviations *read_abbreviations(struct dwarf *dwarf, uint64_t offset) {
  for (size_t i = 0; i < dwarf->abbreviations_count; i++)
    if (dwarf->abbreviations[i]->offset == offset) return dwarf->abbreviations[i];
  struct dwarf_abbreviations *all;
  if (!make_room(&dwarf->abbreviations, &dwarf->abbreviations_capacity, dwarf->abbreviations_count, sizeof all))
    return NULL;
  all = calloc(1, sizeof *all);
  if (!all) return NULL;
  all->offset = offset;
  size_t capacity = 0;
  struct bytes bytes = section_bytes(dwarf->abbrev, offset);
  while (bytes_left(&bytes)) {
    struct dwarf_abbreviation kind = {.code = bytes_uleb(&bytes)};
    if (kind.code == 0) break;
    kind.tag = bytes_uleb(&bytes);
    kind.has_children = bytes_number(&bytes, 1) != 0;
    kind.attributes = bytes.at;
    for (uint64_t attribute = 1, form = 1; (attribute != 0 || form != 0) && !bytes.broken;) {
      attribute = bytes_uleb(&bytes);
      form = bytes_uleb(&bytes);
      if (form == DW_FORM_implicit_const) bytes_sleb(&bytes);
    }
    if (bytes.broken || !make_room(&all->list, &capacity, all->count, sizeof kind)) break;
    all->list[all->count++] = kind;
  }
  dwarf->abbreviations[dwarf->abbreviations_count++] = all;
  return all;
}

static struct bytes unit_bytes(const struct dwarf *dwarf, const struct dwarf_unit *unit, uint64_t offset) {
  struct bytes bytes = section_bytes(dwarf->info, offset);
  bytes.end = dwarf->info.start + unit->end;
  return bytes;
}

// Reads the unit's own entry, twice: the indices in it count from bases that may come later in it.
static struct entry read_unit_entry(const struct dwarf *dwarf, struct dwarf_unit *unit) {
  struct bytes bytes = unit_bytes(dwarf, unit, unit->first_entry);
  struct entry entry = read_entry(dwarf, unit, &bytes);
  unit->str_offsets_base = entry.str_offsets_base.number;
  unit->addr_base = entry.addr_base.number;
  unit->rnglists_base = entry.rnglists_base.number;
  bytes = unit_bytes(dwarf, unit, unit->first_entry);
  entry = read_entry(dwarf, unit, &bytes);
  unit->low_pc = entry.low_pc.number;
  unit->lines_offset = entry.lines_offset;
  unit->directory = entry.directory.string;
  return entry;
}

void dwarf_open(struct dwarf *dwarf, const struct elf_file *file) {
  *dwarf = (struct dwarf){
      .info = elf_section(file, ".debug_info"),
      .abbrev = elf_section(file, ".debug_abbrev"),
      .str = elf_section(file, ".debug_str"),
      .str_offsets = elf_section(file, ".debug_str_offsets"),
      .line_str = elf_section(file, ".debug_line_str"),
      .line = elf_section(file, ".debug_line"),
      .addr = elf_section(file, ".debug_addr"),
      .ranges = elf_section(file, ".debug_ranges"),
      .rnglists = elf_section(file, ".debug_rnglists"),
  };
  size_t capacity = 0;
  struct bytes bytes = section_bytes(dwarf->info, 0);
  while (bytes_left(&bytes)) {
    struct dwarf_unit unit = {.offset = (uint64_t)(bytes.at - dwarf->info.start)};
    uint64_t length = bytes_number(&bytes, 4);
    if (length >= 0xfffffff0) break;  // DWARF of 64 bits: no compiler writes it unasked
    struct bytes rest = bytes;
    if (!bytes_take(&bytes, length)) break;
    unit.end = (uint64_t)(bytes.at - dwarf->info.start);

    enum { compile = 1, partial = 3 };
    unit.version = (unsigned)bytes_number(&rest, 2);
    uint64_t kind = unit.version == 5 ? bytes_number(&rest, 1) : compile;
    uint64_t address_size = unit.version == 5 ? bytes_number(&rest, 1) : 0;
    uint64_t abbreviations = bytes_number(&rest, 4);
    if (unit.version == 4) address_size = bytes_number(&rest, 1);
    if (address_size != 8 || (kind != compile && kind != partial)) continue;
    unit.first_entry = (uint64_t)(rest.at - dwarf->info.start);
    unit.abbreviations = read_abbreviations(dwarf, abbreviations);
    if (!unit.abbreviations || !make_room(&dwarf->units, &capacity, dwarf->unit_count, sizeof unit)) break;
    struct entry entry = read_unit_entry(dwarf, &unit);
    add_ranges(dwarf, &unit, &entry, &dwarf->code, dwarf->unit_count);
    dwarf->units[dwarf->unit_count++] = unit;
  }
  sort_ranges(&dwarf->code);
}

void dwarf_close(struct dwarf *dwarf) {
  for (size_t i = 0; i < dwarf->unit_count; i++) {
    free(dwarf->units[i].functions.list);
    dwarf_lines_free(dwarf->units[i].lines);
  }
  for (size_t i = 0; i < dwarf->abbreviations_count; i++) {
    free(dwarf->abbreviations[i]->list);
    free(dwarf->abbreviations[i]);
  }
  free(dwarf->units);
  free(dwarf->abbreviations);
  free(dwarf->code.list);
  *dwarf = (struct dwarf){0};
}

static const struct dwarf_unit *unit_around(const struct dwarf *dwarf, uint64_t offset) {
  for (size_t low = 0, high = dwarf->unit_count; low < high;) {
    size_t middle = low + (high - low) / 2;
    const struct dwarf_unit *unit = &dwarf->units[middle];
    if (offset < unit->offset) high = middle; else if (offset >= unit->end) low = middle + 1; else return unit;
  }
  return NULL;
}

// MARK: Functions

// Goes through all entries of a unit, however they are nested, and notes where its functions are.
static void read_unit(const struct dwarf *dwarf, struct dwarf_unit *unit) {
  if (unit->was_read) return;
  unit->was_read = true;
  unit->lines = dwarf_lines_read(dwarf, unit);
  struct bytes bytes = unit_bytes(dwarf, unit, unit->first_entry);
  while (bytes_left(&bytes)) {
    uint64_t offset = (uint64_t)(bytes.at - dwarf->info.start);
    struct entry entry = read_entry(dwarf, unit, &bytes);
    if (entry.tag == DW_TAG_subprogram) add_ranges(dwarf, unit, &entry, &unit->functions, offset);
  }
  sort_ranges(&unit->functions);
}

// The linkage name that an entry refers to, perhaps in another unit, by way of a declaration perhaps.
static const char *function_name(const struct dwarf *dwarf, struct dwarf_value reference) {
  const char *name = NULL;
  for (int step = 0; step < 8 && reference.form != 0; step++) {
    const struct dwarf_unit *unit = unit_around(dwarf, reference.number);
    if (!unit) break;
    struct bytes bytes = unit_bytes(dwarf, unit, reference.number);
    struct entry entry = read_entry(dwarf, unit, &bytes);
    if (entry.linkage_name.string) return entry.linkage_name.string;
    if (entry.name.string) name = entry.name.string;
    reference = entry.origin;
  }
  return name;
}

// A call that was inlined: what was called, and where the call stands.
struct inlined_call {
  struct dwarf_value function;
  uint64_t file, line, column;
};

// Descends from a function's entry to the innermost call at an address that was inlined. Writes those calls, outermost
// first, and returns how many.
static size_t inlined_calls(const struct dwarf *dwarf, const struct dwarf_unit *unit, uint64_t function,
                            uint64_t address, struct inlined_call calls[symbols_most - 1]) {
  struct dwarf_ranges scratch = {0};
  struct bytes bytes = unit_bytes(dwarf, unit, function);
  size_t count = 0;
  int depth = 0, skipped = 0;  // `skipped`: the depth below which nothing is at the address; 0 where that is unknown
  do {
    struct entry entry = read_entry(dwarf, unit, &bytes);
    if (entry.tag == 0) {
      depth--;
      if (depth == skipped) skipped = 0;
      continue;
    }
    bool inside = depth == 0;
    if (skipped == 0 && entry.tag == DW_TAG_inlined_subroutine) {
      inside = count < symbols_most - 1 && contains(dwarf, unit, &entry, &scratch, address);
      if (inside)
        calls[count++] = (struct inlined_call){entry.origin, entry.call_file.number, entry.call_line.number,
                                               entry.call_column.number};
    } else if (skipped == 0 && entry.tag == DW_TAG_lexical_block) {
      inside = contains(dwarf, unit, &entry, &scratch, address);
    }
    if (!entry.has_children) continue;
    if (!inside && skipped == 0) skipped = depth;
    depth++;
  } while (depth > 0 && bytes_left(&bytes));
  free(scratch.list);
  return count;
}

size_t dwarf_find(struct dwarf *dwarf, uint64_t address, struct symbol found[symbols_most]) {
  found[0] = (struct symbol){0};
  const struct dwarf_range *code = find_range(&dwarf->code, address);
  if (!code) return 1;
  struct dwarf_unit *unit = &dwarf->units[code->owner];
  read_unit(dwarf, unit);
  struct inlined_call calls[symbols_most - 1];
  const struct dwarf_range *function = find_range(&unit->functions, address);
  size_t count = function ? inlined_calls(dwarf, unit, function->owner, address, calls) : 0;

  // Each call stands in the function around it: the innermost function is at the address's line, each other one at the
  // line of the call that it makes.
  dwarf_lines_find(unit->lines, address, function ? function->high : address, &found[0]);
  for (size_t i = 0; i < count; i++) {
    const struct inlined_call *call = &calls[count - 1 - i];
    found[i].function = function_name(dwarf, call->function);
    found[i + 1] = (struct symbol){.line = (uint32_t)call->line, .column = (uint32_t)call->column};
    dwarf_lines_file(unit->lines, call->file, &found[i + 1]);
  }
  if (function)
    found[count].function = function_name(dwarf, (struct dwarf_value){DW_FORM_ref_addr, function->owner, NULL});
  return count + 1;
}
