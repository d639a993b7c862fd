// SPDX-License-Identifier: Apache-2.0

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

#include "plain_frames.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct unwinder {
  unw_context_t context;  // all registers but the four that a walk knows are 0
  struct plain_frames frames;
};

struct unwinder *coroutine_unwinder_create(void) {
  // Forget what libunwind knows of libraries that were unloaded since, if any.
  unw_flush_cache(unw_local_addr_space, 0, 0);
  return calloc(1, sizeof(struct unwinder));
}

void coroutine_unwinder_destroy(struct unwinder *unwinder) { free(unwinder); }

// Reads a word of a stack. Without this attribute a sanitizer would report a race with the thread that pushed it.
__attribute__((disable_sanitizer_instrumentation, noinline)) static uintptr_t word_at(uintptr_t address) {
  return *(const uintptr_t *)address;
}

static inline bool read_word(void *context, uintptr_t address, uintptr_t *word) {
  (void)context;
  *word = word_at(address);
  return true;
}

// MARK: By libunwind

// Registers that are not given are 0. No frame needs one of them to find its caller: the code around a switch keeps its
// place by sp, fp or the base register.
static void fill(unw_context_t *context, const struct frame_registers *regs) {
#if defined(__x86_64__)
  greg_t *general = context->uc_mcontext.gregs;
  general[REG_RIP] = (greg_t)regs->pc;
  general[REG_RSP] = (greg_t)regs->sp;
  general[REG_RBP] = (greg_t)regs->fp;
  general[REG_RBX] = (greg_t)regs->base;
#elif defined(__aarch64__)
  context->uc_mcontext.pc = regs->pc;
  context->uc_mcontext.sp = regs->sp;
  context->uc_mcontext.regs[29] = regs->fp;
  context->uc_mcontext.regs[19] = regs->base;
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
  unw_word_t value = 0;  // stays 0 where it is not known
  unw_get_reg(cursor, number, &value);
  return value;
}

// The caller of any frame. `is_suspended`: it stands in front of the instruction at pc, and has not called there.
// `is_stable`: what lies on the stack can be relied on, and learnt from.
static bool step(struct unwinder *unwinder, struct frame_registers *regs, uintptr_t top, bool is_suspended, bool is_stable) {
  const struct frame_registers here = *regs;
  fill(&unwinder->context, &here);
  unw_cursor_t cursor;
  if (unw_init_local2(&cursor, &unwinder->context, is_suspended ? UNW_INIT_SIGNAL_FRAME : 0) != 0) return false;
  bool has_caller = unw_step(&cursor) > 0;
  if (has_caller)
    *regs = (struct frame_registers){register_of(&cursor, UNW_REG_IP), register_of(&cursor, UNW_REG_SP),
                                     register_of(&cursor, frame_pointer), register_of(&cursor, base_register)};
  if (!is_stable) return has_caller;
  return plain_frames_stepped(&unwinder->frames, &here, regs, has_caller, top, read_word, NULL);
}

// Whether a context stands at a function's first instruction: it never ran.
static bool is_start_of_function(struct unwinder *unwinder, const struct frame_registers *regs) {
  fill(&unwinder->context, regs);
  unw_cursor_t cursor;
  unw_proc_info_t function;
  return unw_init_local2(&cursor, &unwinder->context, UNW_INIT_SIGNAL_FRAME) == 0 &&
         unw_get_proc_info(&cursor, &function) == 0 && function.start_ip == regs->pc;
}

// MARK: The walk

// Leads a register that is an address of the stack into its copy, and any other to zeros.
static uintptr_t relocated(const struct stack_copy *copy, uintptr_t value) {
  uintptr_t words = (uintptr_t)copy->words, size = copy->top - copy->bottom;
  if (copy->bottom <= value && value < copy->top) return value - copy->bottom + words;
  return words <= value && value <= words + size ? value : words + size + stack_copy_margin / 2;
}

// `copy` is NULL where the stack itself is walked. `is_interrupted`: see `coroutine_unwinder_walk_copy`.
static size_t walk(struct unwinder *unwinder, const struct frame_registers *start, uintptr_t top, const struct stack_copy *copy,
                   bool is_interrupted, uintptr_t *addresses, size_t capacity) {
  struct frame_registers regs = *start;
  uintptr_t previous = 0;
  size_t count = 0;
  // Outwards means upwards. Equal only where a frame has nothing on the stack.
  while (regs.pc != 0 && regs.sp >= previous && regs.sp < top && count < capacity) {
    previous = regs.sp;
    addresses[count++] = regs.pc;
    // What is known of a function's frames holds at return addresses. Whether an interrupted function has made its
    // frame pointer yet, only its call frame information knows.
    bool is_known = !(is_interrupted && count == 1) &&
                    plain_frames_step(&unwinder->frames, &regs, top, read_word, NULL);
    if (!is_known && !step(unwinder, &regs, top, count == 1, !copy)) break;
    if (!copy) continue;
    regs.fp = relocated(copy, regs.fp);
    regs.base = relocated(copy, regs.base);
  }
  if (is_interrupted && count > 0) addresses[0]++;
  return count;
}

size_t coroutine_unwinder_walk(struct unwinder *unwinder, const uintptr_t registers[4], uintptr_t top, uintptr_t *addresses,
                     size_t capacity) {
  const struct frame_registers start = {registers[0], registers[1], registers[2], registers[3]};
  size_t count = walk(unwinder, &start, top, NULL, false, addresses, capacity);
  // On a stack that was never run on the walk finds only the backend's first function and, where the stack ends, one
  // below it. Longer walks are spared this look, which takes a while.
  if (count == 1 || count == 2) addresses[0] += is_start_of_function(unwinder, &start);
  return count;
}

// MARK: A copy of a stack

// Around a copy lie zeros, more of them than a frame's call frame information reaches.

__attribute__((disable_sanitizer_instrumentation, noinline)) static void copy_words(uintptr_t *to, uintptr_t from,
                                                                                    size_t count) {
  const volatile uintptr_t *source = (const volatile uintptr_t *)from;
  for (size_t i = 0; i < count; i++) to[i] = source[i];
}

size_t coroutine_stack_copy_make(struct stack_copy *copy, const uintptr_t registers[4], uintptr_t top, char *room, size_t size) {
  if (registers[1] >= top || size < 2 * stack_copy_margin + 256) return 0;
  // With the red zone below.
  uintptr_t bottom = (registers[1] - 128) & ~(uintptr_t)15;
  size_t most = size - 2 * stack_copy_margin;
  if (most > stack_copy_most) most = stack_copy_most;
  if (top - bottom > most) top = bottom + (most & ~(size_t)15);
  *copy = (struct stack_copy){.bottom = bottom, .top = top, .words = room + stack_copy_margin};
  memcpy(copy->registers, registers, sizeof copy->registers);
  memset(room, 0, stack_copy_margin);
  copy_words((uintptr_t *)copy->words, bottom, (top - bottom) / sizeof(uintptr_t));
  memset(copy->words + (top - bottom), 0, stack_copy_margin);
  return top - bottom + 2 * stack_copy_margin;
}

size_t coroutine_unwinder_walk_copy(struct unwinder *unwinder, const struct stack_copy *copy, bool is_interrupted,
                          uintptr_t *addresses, size_t capacity) {
  const struct frame_registers regs = {copy->registers[0], copy->registers[1] - copy->bottom + (uintptr_t)copy->words,
                                       relocated(copy, copy->registers[2]), relocated(copy, copy->registers[3])};
  uintptr_t top = (uintptr_t)copy->words + (copy->top - copy->bottom);
  return walk(unwinder, &regs, top, copy, is_interrupted, addresses, capacity);
}

// MARK: The calling thread

__attribute__((noinline)) struct unwinder_registers coroutine_unwinder_registers_here(void) {
  const uintptr_t *frame = __builtin_frame_address(0);
  return (struct unwinder_registers){(uintptr_t)__builtin_return_address(0), (uintptr_t)(frame + 2), frame[0], 0};
}

// From its caller on.
size_t coroutine_unwinder_creation_backtrace(uintptr_t *addresses, size_t capacity) {
  unw_context_t context;
  unw_cursor_t cursor;
  if (unw_getcontext(&context) != 0 || unw_init_local(&cursor, &context) != 0) return 0;
  size_t count = 0;
  while (count < capacity && unw_step(&cursor) > 0) {
    uintptr_t pc = register_of(&cursor, UNW_REG_IP);
    if (pc == 0) break;
    addresses[count++] = pc;
  }
  return count;
}
