#define UNW_LOCAL_ONLY
#define _GNU_SOURCE 1

#if !__has_include(<libunwind.h>)
#error "CoroutineDebug needs libunwind. Install it (Debian, Ubuntu: apt-get install libunwind-dev; Fedora: dnf install libunwind-devel), or do without the product CoroutineDebug: the others need no libunwind."
#endif
#include <libunwind.h>
#if !defined(UNW_TARGET)
#error "The <libunwind.h> found first is LLVM's, which cannot start from saved registers. Install the other one (Debian, Ubuntu: apt-get install libunwind-dev) and let its folder come first: -Xcc -I<its folder>."
#endif

#include "unwind_stack.h"

#include <stdbool.h>
#include <stdlib.h>

// Where a walk stands: what it needs to know of a frame's registers.
struct place {
  uintptr_t pc, sp, fp, base;
};

// A step of libunwind's takes 0.6 us or more, most of it for system calls: it blocks all signals while it looks into
// its cache. Most frames keep a frame pointer, though, so that the frame's caller can be read from two words. Which
// frames do is learnt from libunwind, once for each address, by trying: if its step leads where the frame pointer
// leads, then so it does whenever the program is at that address, since the call frame information of an address is
// always the same.
struct plain_frame {
  uintptr_t pc;    // 0: an empty slot
  uintptr_t size;  // from where fp points to the sp of the caller
};

enum { slot_bits = 13, slot_count = 1 << slot_bits, most_frames = slot_count / 2 };

struct unwinder {
  unw_context_t context;  // all registers but the four that a walk knows are 0
  size_t frame_count;
  struct plain_frame frames[slot_count];  // open addressing
};

struct unwinder *unwinder_create(void) {
  // Forget what libunwind knows of libraries that were unloaded since, if any.
  unw_flush_cache(unw_local_addr_space, 0, 0);
  return calloc(1, sizeof(struct unwinder));
}

void unwinder_destroy(struct unwinder *unwinder) { free(unwinder); }

static struct plain_frame *slot(struct unwinder *unwinder, uintptr_t pc) {
  size_t index = (size_t)((uint64_t)pc * 0x9e3779b97f4a7c15u >> (64 - slot_bits));
  while (unwinder->frames[index].pc != 0 && unwinder->frames[index].pc != pc) index = (index + 1) % slot_count;
  return &unwinder->frames[index];
}

// Reads a word of a stack. A sanitizer would take the thread that pushed it for somebody who races with this one.
__attribute__((disable_sanitizer_instrumentation, noinline)) static uintptr_t word_at(uintptr_t address) {
  return *(const uintptr_t *)address;
}

// The caller of a frame that is known to keep a frame pointer. False where it cannot be: then libunwind is to say.
static bool step_plainly(struct unwinder *unwinder, struct place *place, uintptr_t top) {
  const struct plain_frame *frame = slot(unwinder, place->pc);
  if (frame->pc == 0 || place->fp < place->sp || place->fp > top - 2 * sizeof(uintptr_t) ||
      place->fp % sizeof(uintptr_t) != 0)
    return false;
  *place = (struct place){word_at(place->fp + sizeof(uintptr_t)), place->fp + frame->size, word_at(place->fp), 0};
  return true;
}

// MARK: By libunwind

// Registers that are not given are 0. A frame that needs one of them to find its caller does not occur: what calls a
// switch keeps its place by sp, fp or the base register.
static void fill(unw_context_t *context, const struct place *place) {
#if defined(__x86_64__)
  greg_t *general = context->uc_mcontext.gregs;
  general[REG_RIP] = (greg_t)place->pc;
  general[REG_RSP] = (greg_t)place->sp;
  general[REG_RBP] = (greg_t)place->fp;
  general[REG_RBX] = (greg_t)place->base;
#elif defined(__aarch64__)
  context->uc_mcontext.pc = place->pc;
  context->uc_mcontext.sp = place->sp;
  context->uc_mcontext.regs[29] = place->fp;
  context->uc_mcontext.regs[19] = place->base;
#else
#error "CoroutineDebug does not know where unw_context_t keeps this architecture's pc, sp, fp and base register: add them here."
#endif
}

#if defined(__x86_64__)
enum { frame_pointer = UNW_X86_64_RBP, base_register = UNW_X86_64_RBX };
#elif defined(__aarch64__)
enum { frame_pointer = UNW_AARCH64_X29, base_register = UNW_AARCH64_X19 };
#endif

static uintptr_t register_of(unw_cursor_t *cursor, unw_regnum_t number) {
  unw_word_t value = 0;  // stays 0 where nobody knows it
  unw_get_reg(cursor, number, &value);
  return value;
}

// The caller of any frame. `is_suspended`: it stands in front of the instruction at pc, and has not called there.
static bool step(struct unwinder *unwinder, struct place *place, uintptr_t top, bool is_suspended) {
  const struct place here = *place;
  fill(&unwinder->context, &here);
  unw_cursor_t cursor;
  if (unw_init_local2(&cursor, &unwinder->context, is_suspended ? UNW_INIT_SIGNAL_FRAME : 0) != 0) return false;
  if (unw_step(&cursor) <= 0) return false;
  *place = (struct place){register_of(&cursor, UNW_REG_IP), register_of(&cursor, UNW_REG_SP),
                          register_of(&cursor, frame_pointer), register_of(&cursor, base_register)};
  bool is_inside = here.sp <= here.fp && here.fp < place->sp && place->sp < top;
  if (is_inside && here.fp % sizeof(uintptr_t) == 0 && word_at(here.fp + sizeof(uintptr_t)) == place->pc &&
      word_at(here.fp) == place->fp && unwinder->frame_count < most_frames) {
    struct plain_frame *frame = slot(unwinder, here.pc);
    if (frame->pc == 0) unwinder->frame_count++;
    *frame = (struct plain_frame){here.pc, place->sp - here.fp};
  }
  return true;
}

// Whether a context stands at a function's first instruction: it never ran.
static bool is_start_of_function(struct unwinder *unwinder, const struct place *place) {
  fill(&unwinder->context, place);
  unw_cursor_t cursor;
  unw_proc_info_t function;
  return unw_init_local2(&cursor, &unwinder->context, UNW_INIT_SIGNAL_FRAME) == 0 &&
         unw_get_proc_info(&cursor, &function) == 0 && function.start_ip == place->pc;
}

// MARK: The walk

size_t unwinder_walk(struct unwinder *unwinder, const uintptr_t registers[4], uintptr_t top, uintptr_t *addresses,
                     size_t capacity) {
  const struct place start = {registers[0], registers[1], registers[2], registers[3]};
  struct place place = start;
  uintptr_t previous = 0;
  size_t count = 0;
  // Outwards means upwards. Equal only where a frame has nothing on the stack.
  while (place.pc != 0 && place.sp >= previous && place.sp < top && count < capacity) {
    previous = place.sp;
    addresses[count++] = place.pc;
    if (!step_plainly(unwinder, &place, top) && !step(unwinder, &place, top, count == 1)) break;
  }
  // Only the backend's first function, and one below it where the stack ends, are on a stack that was never run on: no
  // others need to be asked, which takes a while.
  if (count == 1 || count == 2) addresses[0] += is_start_of_function(unwinder, &start);
  return count;
}
