// Debug information: the little of DWARF 4 and 5 that leads from an address to functions, files and lines.
//
//     .debug_info   a tree of entries for each compilation unit: functions, and below each, what was inlined into it
//     .debug_line   a program for each unit, that computes a table from addresses to lines
//
// A unit is read when somebody asks for an address in it: first its list of functions, to find an entry without going
// through the unit again, and its line table.
#pragma once

#include "elf_file.h"
#include "symbols.h"

// The numbers of DWARF that are used here, by their names in the standard.
enum {
  DW_TAG_lexical_block = 0x0b,
  DW_TAG_inlined_subroutine = 0x1d,
  DW_TAG_subprogram = 0x2e,

  DW_AT_name = 0x03,
  DW_AT_stmt_list = 0x10,
  DW_AT_low_pc = 0x11,
  DW_AT_high_pc = 0x12,
  DW_AT_comp_dir = 0x1b,
  DW_AT_abstract_origin = 0x31,
  DW_AT_specification = 0x47,
  DW_AT_ranges = 0x55,
  DW_AT_call_column = 0x57,
  DW_AT_call_file = 0x58,
  DW_AT_call_line = 0x59,
  DW_AT_linkage_name = 0x6e,
  DW_AT_str_offsets_base = 0x72,
  DW_AT_addr_base = 0x73,
  DW_AT_rnglists_base = 0x74,

  DW_FORM_addr = 0x01,
  DW_FORM_block2 = 0x03,
  DW_FORM_block4 = 0x04,
  DW_FORM_data2 = 0x05,
  DW_FORM_data4 = 0x06,
  DW_FORM_data8 = 0x07,
  DW_FORM_string = 0x08,
  DW_FORM_block = 0x09,
  DW_FORM_block1 = 0x0a,
  DW_FORM_data1 = 0x0b,
  DW_FORM_flag = 0x0c,
  DW_FORM_sdata = 0x0d,
  DW_FORM_strp = 0x0e,
  DW_FORM_udata = 0x0f,
  DW_FORM_ref_addr = 0x10,
  DW_FORM_ref1 = 0x11,
  DW_FORM_ref2 = 0x12,
  DW_FORM_ref4 = 0x13,
  DW_FORM_ref8 = 0x14,
  DW_FORM_ref_udata = 0x15,
  DW_FORM_sec_offset = 0x17,
  DW_FORM_exprloc = 0x18,
  DW_FORM_flag_present = 0x19,
  DW_FORM_strx = 0x1a,
  DW_FORM_addrx = 0x1b,
  DW_FORM_data16 = 0x1e,
  DW_FORM_line_strp = 0x1f,
  DW_FORM_ref_sig8 = 0x20,
  DW_FORM_implicit_const = 0x21,
  DW_FORM_loclistx = 0x22,
  DW_FORM_rnglistx = 0x23,
  DW_FORM_strx1 = 0x25,
  DW_FORM_strx2 = 0x26,
  DW_FORM_strx3 = 0x27,
  DW_FORM_strx4 = 0x28,
  DW_FORM_addrx1 = 0x29,
  DW_FORM_addrx2 = 0x2a,
  DW_FORM_addrx3 = 0x2b,
  DW_FORM_addrx4 = 0x2c,
};

// One attribute's value. Which of the fields counts follows from the form.
struct dwarf_value {
  uint16_t form;       // 0: the attribute is not there
  uint64_t number;     // a constant, an address, an offset in a section, or an index
  const char *string;
};

// What all entries of one kind have: their tag and the names and forms of their attributes.
struct dwarf_abbreviation {
  uint64_t code;
  uint64_t tag;
  bool has_children;
  const uint8_t *attributes;  // pairs of uleb, in the section, to be read again for each entry
};

struct dwarf_abbreviations {
  uint64_t offset;
  struct dwarf_abbreviation *list;
  size_t count;
};

struct dwarf_range {
  uint64_t low, high;
  uint64_t owner;  // of a unit's code: its index; of a function's: its entry's offset
};

struct dwarf_ranges {
  struct dwarf_range *list;  // sorted by `low` once it is complete
  size_t count, capacity;
};

struct dwarf_lines;

struct dwarf_unit {
  uint64_t offset, first_entry, end;  // in .debug_info
  unsigned version;
  const struct dwarf_abbreviations *abbreviations;
  uint64_t low_pc, str_offsets_base, addr_base, rnglists_base;
  struct dwarf_value lines_offset;
  const char *directory;
  bool was_read;                  // the two that follow
  struct dwarf_ranges functions;
  struct dwarf_lines *lines;      // NULL: there are none
};

// The debug information of one file.
struct dwarf {
  struct elf_section info, abbrev, str, str_offsets, line_str, line, addr, ranges, rnglists;
  struct dwarf_unit *units;  // in the order of their offsets
  size_t unit_count;
  struct dwarf_abbreviations **abbreviations;  // units share them
  size_t abbreviations_count, abbreviations_capacity;
  struct dwarf_ranges code;                    // of all units
};

// Finds the units. Without debug information there are none.
void dwarf_open(struct dwarf *dwarf, const struct elf_file *file);
void dwarf_close(struct dwarf *dwarf);

// Finds the functions at an address as the file counts. `found[0...]` are those that were inlined, innermost first; the
// last one is the function that they were inlined into. Returns how many there are, at least 1.
size_t dwarf_find(struct dwarf *dwarf, uint64_t address, struct symbol found[symbols_most]);

// MARK: Between the files of the reader

// Reads a value of the given form. A form that is not known breaks the cursor.
struct dwarf_value dwarf_read_value(const struct dwarf *dwarf, const struct dwarf_unit *unit, struct bytes *bytes,
                                    uint64_t form, int64_t implicit);

// Reads the line table of a unit. NULL if there is none, or it is broken.
struct dwarf_lines *dwarf_lines_read(const struct dwarf *dwarf, const struct dwarf_unit *unit);
void dwarf_lines_free(struct dwarf_lines *lines);

// Fills in file, line and column of an address in a function, or leaves them.
void dwarf_lines_find(const struct dwarf_lines *lines, uint64_t address, uint64_t function_end, struct symbol *symbol);

// Fills in a file by the number that it has in the table.
void dwarf_lines_file(const struct dwarf_lines *lines, uint64_t number, struct symbol *symbol);
