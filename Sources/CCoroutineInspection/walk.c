// SPDX-License-Identifier: Apache-2.0

#include <libunwind.h>
#include <stdlib.h>
#include <string.h>

#include "parts.h"

#include "plain_frames.h"

// Walks another process's stacks by libunwind, which reads the process's memory through the functions below.

struct walker {
  unw_addr_space_t space;
  struct plain_frames frames;
};

// What libunwind hands on to the functions below.
struct walk {
  struct target *target;
  struct frame_registers regs;
  // How many words it has read for one step.
  uint32_t reads;
};

// libunwind takes memory for each state that call frame information remembers, by one byte of that: without a limit a
// stranger's dump could make it take all. Real steps read some hundreds of words.
enum { most_reads = 1 << 16 };

#if defined(__x86_64__)
enum { pointer_register = UNW_X86_64_RBP, base_register = UNW_X86_64_RBX };
#elif defined(__aarch64__)
enum { pointer_register = UNW_AARCH64_X29, base_register = UNW_AARCH64_X19 };
#endif

// MARK: What libunwind asks for

// libunwind's own search in a table of call frame information; exported, and in none of its headers.
extern int UNW_OBJ(dwarf_search_unwind_table)(unw_addr_space_t space, unw_word_t ip, unw_dyn_info_t *table,
                                              unw_proc_info_t *found, int needs_unwind_info, void *context);

// An .eh_frame_hdr: its head, and the format in which every linker of today writes the table behind it.
struct table_header {
  uint8_t version, frame_encoding, count_encoding, table_encoding;
  int32_t frame;
  uint32_t count;
};
enum { encoded_pc_relative_4 = 0x1b, encoded_unsigned_4 = 0x03, encoded_data_relative_4 = 0x3b };

static int find_function(unw_addr_space_t space, unw_word_t ip, unw_proc_info_t *found, int needs_unwind_info,
                         void *context) {
  struct target *target = ((struct walk *)context)->target;
  const struct target_image *image = coroutine_target_image_around(target, ip);
  struct table_header header;
  if (!image || !image->unwind_table || !coroutine_target_read(target, image->unwind_table, &header, sizeof header) ||
      header.version != 1 || header.frame_encoding != encoded_pc_relative_4 ||
      header.count_encoding != encoded_unsigned_4 || header.table_encoding != encoded_data_relative_4)
    return -UNW_ENOINFO;
  unw_dyn_info_t table;
  memset(&table, 0, sizeof table);
  table.start_ip = image->start;
  table.end_ip = image->end;
  table.format = UNW_INFO_FORMAT_REMOTE_TABLE;
  table.u.rti.segbase = image->unwind_table;
  table.u.rti.table_data = image->unwind_table + sizeof header;
  // Two numbers of four bytes each, counted in words.
  table.u.rti.table_len = (unw_word_t)header.count * 8 / sizeof(unw_word_t);
  return UNW_OBJ(dwarf_search_unwind_table)(space, ip, &table, found, needs_unwind_info, context);
}

// What was found lies in libunwind's own memory, and goes with it.
static void forget_function(unw_addr_space_t space, unw_proc_info_t *found, void *context) {
  (void)space, (void)found, (void)context;
}

static int find_dynamic_list(unw_addr_space_t space, unw_word_t *list, void *context) {
  (void)space, (void)list, (void)context;
  return -UNW_ENOINFO;
}

static int access_memory(unw_addr_space_t space, unw_word_t address, unw_word_t *value, int writes, void *context) {
  (void)space;
  struct walk *walk = context;
  if (writes || walk->reads++ >= most_reads) return -UNW_EINVAL;
  return coroutine_target_read(walk->target, address, value, sizeof *value) ? 0 : -UNW_EINVAL;
}

// Registers that are not known are 0, as in this process's own walks.
static int access_register(unw_addr_space_t space, unw_regnum_t number, unw_word_t *value, int writes, void *context) {
  (void)space;
  if (writes) return -UNW_EREADONLYREG;
  const struct frame_registers *regs = &((struct walk *)context)->regs;
  *value = number == UNW_REG_IP        ? regs->pc
           : number == UNW_REG_SP      ? regs->sp
           : number == pointer_register ? regs->fp
           : number == base_register    ? regs->base
                                        : 0;
  return 0;
}

static int access_float(unw_addr_space_t space, unw_regnum_t number, unw_fpreg_t *value, int writes, void *context) {
  (void)space, (void)number, (void)value, (void)writes, (void)context;
  return -UNW_EBADREG;
}

static int resume(unw_addr_space_t space, unw_cursor_t *cursor, void *context) {
  (void)space, (void)cursor, (void)context;
  return -UNW_EINVAL;
}

static int find_name(unw_addr_space_t space, unw_word_t address, char *name, size_t size, unw_word_t *offset,
                     void *context) {
  (void)space, (void)address, (void)name, (void)size, (void)offset, (void)context;
  return -UNW_ENOINFO;
}

// MARK: The walk

static struct walker *walker_create(void) {
  struct walker *walker = calloc(1, sizeof *walker);
  if (!walker) return NULL;
  unw_accessors_t functions = {
      .find_proc_info = find_function, .put_unwind_info = forget_function,
      .get_dyn_info_list_addr = find_dynamic_list, .access_mem = access_memory, .access_reg = access_register,
      .access_fpreg = access_float, .resume = resume, .get_proc_name = find_name};
  walker->space = unw_create_addr_space(&functions, 0);
  if (!walker->space) {
    free(walker);
    return NULL;
  }
  unw_set_caching_policy(walker->space, UNW_CACHE_GLOBAL);
  return walker;
}

void coroutine_walker_destroy(struct walker *walker) {
  unw_destroy_addr_space(walker->space);
  free(walker);
}

static bool read_word(void *context, uintptr_t address, uintptr_t *word) {
  return coroutine_target_read(context, address, word, sizeof *word);
}

static uintptr_t register_of(unw_cursor_t *cursor, unw_regnum_t number) {
  unw_word_t value = 0;  // stays 0 where it is not known
  unw_get_reg(cursor, number, &value);
  return value;
}

// The caller of any frame. `is_suspended`: it stands in front of the instruction at pc, and has not called there.
// `is_interrupted`: it does not stand at a return address either, about which more would be known.
static bool step(struct target *target, struct frame_registers *regs, uintptr_t top, bool is_suspended, bool is_interrupted) {
  const struct frame_registers here = *regs;
  struct walk walk = {.target = target, .regs = here};
  // libunwind takes the registers for those of a frame that stands in front of an instruction. The call that a return
  // address stands for lies before it.
  if (!is_suspended) walk.regs.pc--;
  unw_cursor_t cursor;
  if (unw_init_remote(&cursor, target->walker->space, &walk) != 0) return false;
  bool has_caller = unw_step(&cursor) > 0;
  if (has_caller)
    *regs = (struct frame_registers){register_of(&cursor, UNW_REG_IP), register_of(&cursor, UNW_REG_SP),
                                     register_of(&cursor, pointer_register), register_of(&cursor, base_register)};
  if (is_interrupted) return has_caller;
  return plain_frames_stepped(&target->walker->frames, &here, regs, has_caller, top, read_word, target);
}

// Whether there is information about how to get from here to the caller. Not where the code is in a file that is
// missing, or that is another build: libunwind would guess, and take any word of the stack for a caller.
static bool is_walkable(struct target *target, uintptr_t pc, bool *is_cut) {
  uint8_t byte;
  struct walk walk = {.target = target};
  unw_proc_info_t function;
  if (coroutine_target_read(target, pc, &byte, 1) || find_function(target->walker->space, pc, &function, 0, &walk) == 0) return true;
  // No code at all, such as a bad pointer that was called: the caller is where a call leaves it.
  if (!coroutine_target_image_around(target, pc)) return true;
  *is_cut = true;
  return false;
}

// Whether a context stands at a function's first instruction: it never ran.
static bool is_start_of_function(struct target *target, const struct frame_registers *regs) {
  struct walk walk = {.target = target, .regs = *regs};
  unw_cursor_t cursor;
  unw_proc_info_t function;
  return unw_init_remote(&cursor, target->walker->space, &walk) == 0 && unw_get_proc_info(&cursor, &function) == 0 &&
         function.start_ip == regs->pc;
}

size_t coroutine_target_walk(struct target *target, const uintptr_t registers[4], uintptr_t top, bool is_interrupted,
                   uintptr_t *addresses, size_t capacity, bool *is_cut) {
  if (!target->walker) target->walker = walker_create();
  if (!target->walker) return 0;
  const struct frame_registers start = {registers[0], registers[1], registers[2], registers[3]};
  struct frame_registers regs = start;
  uintptr_t previous = 0;
  size_t count = 0;
  // As in `coroutine_unwinder_walk`: outwards means upwards. Equal only where a frame has nothing on the stack.
  while (regs.pc != 0 && regs.sp >= previous && regs.sp < top && count < capacity) {
    previous = regs.sp;
    addresses[count++] = regs.pc;
    bool is_first = is_interrupted && count == 1;
    bool is_known = !is_first && plain_frames_step(&target->walker->frames, &regs, top, read_word, target);
    if (is_known) continue;
    if (!is_walkable(target, regs.pc - (count > 1), is_cut) || !step(target, &regs, top, count == 1, is_first)) break;
  }
  if (is_interrupted && count > 0)
    addresses[0]++;
  else if (count == 1 || count == 2) addresses[0] += is_start_of_function(target, &start);
  return count;
}
