// The line tables of .debug_line.

#include "dwarf.h"

// From `address` on, up to the next row.
struct row {
  uint64_t address;
  uint32_t file, line, column;
};

// Rows whose addresses ascend, without a gap, up to `end`: what one run of the program's registers yields.
struct sequence {
  uint64_t start, end;
  size_t first_row, row_count;
};

struct file_name {
  const char *name;
  uint64_t directory;  // its number
};

struct dwarf_lines {
  const char *base_directory;
  uint64_t first_number;  // of a file: 1 up to DWARF 4, then 0
  const char **directories;
  size_t directory_count, directory_capacity;
  struct file_name *files;
  size_t file_count, file_capacity;
  struct row *rows;
  size_t row_count, row_capacity;
  struct sequence *sequences;
  size_t sequence_count, sequence_capacity;
};

void dwarf_lines_free(struct dwarf_lines *lines) {
  if (!lines) return;
  free(lines->directories);
  free(lines->files);
  free(lines->rows);
  free(lines->sequences);
  free(lines);
}

// MARK: The header

static bool add_directory(struct dwarf_lines *lines, const char *directory) {
  if (!make_room(&lines->directories, &lines->directory_capacity, lines->directory_count, sizeof(char *)))
    return false;
  lines->directories[lines->directory_count++] = directory;
  return true;
}

static bool add_file(struct dwarf_lines *lines, struct file_name file) {
  if (!make_room(&lines->files, &lines->file_capacity, lines->file_count, sizeof file)) return false;
  lines->files[lines->file_count++] = file;
  return true;
}

// DWARF 4: strings, ended by an empty one. Directory 0 is the unit's own.
static bool read_names_4(struct dwarf_lines *lines, struct bytes *bytes) {
  if (!add_directory(lines, lines->base_directory)) return false;
  for (;;) {
    const char *directory = bytes_string(bytes);
    if (!directory) return false;
    if (*directory == 0) break;
    if (!add_directory(lines, directory)) return false;
  }
  for (;;) {
    struct file_name file = {.name = bytes_string(bytes)};
    if (!file.name) return false;
    if (*file.name == 0) return true;
    file.directory = bytes_uleb(bytes);
    bytes_uleb(bytes);  // time
    bytes_uleb(bytes);  // size
    if (!add_file(lines, file)) return false;
  }
}

// DWARF 5: a list of entries, behind a description of what each consists of.
static bool read_names_5(struct dwarf_lines *lines, const struct dwarf *dwarf, const struct dwarf_unit *unit,
                         struct bytes *bytes, bool are_files) {
  enum { content_path = 1, content_directory = 2 };
  uint64_t format_count = bytes_number(bytes, 1);
  struct bytes formats = *bytes;
  for (uint64_t i = 0; i < 2 * format_count; i++) bytes_uleb(bytes);
  uint64_t count = bytes_uleb(bytes);
  if (format_count == 0) return count == 0;  // else nothing would bound the loop
  for (uint64_t i = 0; i < count && !bytes->broken; i++) {
    struct file_name file = {0};
    struct bytes format = formats;
    for (uint64_t j = 0; j < format_count; j++) {
      uint64_t content = bytes_uleb(&format), form = bytes_uleb(&format);
      struct dwarf_value value = dwarf_read_value(dwarf, unit, bytes, form, 0);
      if (content == content_path) file.name = value.string;
      if (content == content_directory) file.directory = value.number;
    }
    if (!(are_files ? add_file(lines, file) : add_directory(lines, file.name))) return false;
  }
  return !bytes->broken;
}

// MARK: The program

// What the program computes with.
struct registers {
  uint64_t address, file, line, column;
};

struct program {
  unsigned instruction_length;
  int8_t line_base;
  uint8_t line_range, first_special;
  uint8_t operand_counts[256];  // of the standard instructions
};

static bool add_row(struct dwarf_lines *lines, const struct registers *registers) {
  if (!make_room(&lines->rows, &lines->row_capacity, lines->row_count, sizeof(struct row))) return false;
  lines->rows[lines->row_count++] = (struct row){registers->address, (uint32_t)registers->file,
                                                 (uint32_t)registers->line, (uint32_t)registers->column};
  return true;
}

// Makes a sequence of the rows that no other has yet. Those of code that the linker dropped begin at 0 or so.
static bool end_sequence(struct dwarf_lines *lines, uint64_t end) {
  size_t first = 0;
  if (lines->sequence_count > 0) {
    const struct sequence *last = &lines->sequences[lines->sequence_count - 1];
    first = last->first_row + last->row_count;
  }
  if (first == lines->row_count) return true;
  uint64_t start = lines->rows[first].address;
  if (start <= 1 || end <= start) {
    lines->row_count = first;
    return true;
  }
  if (!make_room(&lines->sequences, &lines->sequence_capacity, lines->sequence_count, sizeof(struct sequence)))
    return false;
  lines->sequences[lines->sequence_count++] = (struct sequence){start, end, first, lines->row_count - first};
  return true;
}

// Runs the program. Returns false if it is broken, or there is no memory.
static bool run(struct dwarf_lines *lines, const struct program *program, struct bytes bytes) {
  enum {
    extended, copy, advance_pc, advance_line, set_file, set_column, negate_stmt, set_basic_block, const_add_pc,
    fixed_advance_pc
  };
  enum { end_of_sequence = 1, set_address = 2 };
  const struct registers initial = {.file = 1, .line = 1};
  struct registers registers = initial;
  while (bytes_left(&bytes)) {
    uint8_t code = (uint8_t)bytes_number(&bytes, 1);
    if (code >= program->first_special) {
      // One byte that advances both and adds a row.
      unsigned both = code - program->first_special;
      registers.address += both / program->line_range * program->instruction_length;
      registers.line += (uint64_t)(program->line_base + (int)(both % program->line_range));
      if (!add_row(lines, &registers)) return false;
      continue;
    }
    switch (code) {
      case extended: {
        struct bytes operands = bytes;
        uint64_t length = bytes_uleb(&operands);
        bytes = operands;
        if (!bytes_take(&bytes, length)) return false;
        switch (bytes_number(&operands, 1)) {
          case end_of_sequence:
            if (!end_sequence(lines, registers.address)) return false;
            registers = initial;
            break;
          case set_address: registers.address = bytes_number(&operands, 8); break;
          default: break;
        }
        break;
      }
      case copy:
        if (!add_row(lines, &registers)) return false;
        break;
      case advance_pc: registers.address += bytes_uleb(&bytes) * program->instruction_length; break;
      case advance_line: registers.line += (uint64_t)bytes_sleb(&bytes); break;
      case set_file: registers.file = bytes_uleb(&bytes); break;
      case set_column: registers.column = bytes_uleb(&bytes); break;
      case const_add_pc:
        registers.address += (255u - program->first_special) / program->line_range * program->instruction_length;
        break;
      case fixed_advance_pc: registers.address += bytes_number(&bytes, 2); break;
      default:
        for (int i = 0; i < program->operand_counts[code]; i++) bytes_uleb(&bytes);
    }
  }
  return !bytes.broken;
}

// MARK: The table

static bool read_table(struct dwarf_lines *lines, const struct dwarf *dwarf, const struct dwarf_unit *unit) {
  struct bytes bytes = bytes_from(dwarf->line.start, dwarf->line.size, unit->lines_offset.number);
  uint64_t length = bytes_number(&bytes, 4);
  struct bytes table = bytes;
  if (length >= 0xfffffff0 || !bytes_take(&bytes, length)) return false;
  table.end = bytes.at;

  uint64_t version = bytes_number(&table, 2);
  if (version != 4 && version != 5) return false;
  if (version == 5) bytes_number(&table, 2);  // sizes of an address and of a segment selector
  uint64_t header_length = bytes_number(&table, 4);
  struct bytes code = table;
  if (!bytes_take(&code, header_length)) return false;

  struct program program = {.instruction_length = (unsigned)bytes_number(&table, 1)};
  bytes_number(&table, 2);  // instructions in one of a VLIW machine; whether a row is a statement
  program.line_base = (int8_t)bytes_number(&table, 1);
  program.line_range = (uint8_t)bytes_number(&table, 1);
  program.first_special = (uint8_t)bytes_number(&table, 1);
  for (unsigned i = 1; i < program.first_special; i++) program.operand_counts[i] = (uint8_t)bytes_number(&table, 1);
  if (table.broken || program.line_range == 0) return false;

  lines->first_number = version == 5 ? 0 : 1;
  bool named = version == 5 ? read_names_5(lines, dwarf, unit, &table, false) &&
                                  read_names_5(lines, dwarf, unit, &table, true)
                            : read_names_4(lines, &table);
  return named && run(lines, &program, code);
}

struct dwarf_lines *dwarf_lines_read(const struct dwarf *dwarf, const struct dwarf_unit *unit) {
  if (unit->lines_offset.form == 0) return NULL;
  struct dwarf_lines *lines = calloc(1, sizeof *lines);
  if (!lines) return NULL;
  lines->base_directory = unit->directory;
  if (read_table(lines, dwarf, unit)) return lines;
  dwarf_lines_free(lines);
  return NULL;
}

void dwarf_lines_file(const struct dwarf_lines *lines, uint64_t number, struct symbol *symbol) {
  if (!lines || number < lines->first_number || number - lines->first_number >= lines->file_count) return;
  struct file_name file = lines->files[number - lines->first_number];
  symbol->file = file.name;
  symbol->directory = file.directory < lines->directory_count ? lines->directories[file.directory] : NULL;
  symbol->base_directory = lines->base_directory;
}

void dwarf_lines_find(const struct dwarf_lines *lines, uint64_t address, uint64_t function_end, struct symbol *symbol) {
  if (!lines) return;
  for (size_t i = 0; i < lines->sequence_count; i++) {
    const struct sequence *sequence = &lines->sequences[i];
    if (address < sequence->start || address >= sequence->end) continue;
    const struct row *row = &lines->rows[sequence->first_row];
    for (size_t j = 1; j < sequence->row_count && row[1].address <= address; j++) row++;
    // No line: the compiler made this code for what comes next, as it makes a loop's call of `next()`.
    const struct row *last = &lines->rows[sequence->first_row + sequence->row_count - 1], *named = row;
    while (named < last && named->line == 0 && named[1].file == row->file && named[1].address < function_end) named++;
    symbol->line = named->line;
    symbol->column = named->column;
    dwarf_lines_file(lines, row->file, symbol);
    return;
  }
}
