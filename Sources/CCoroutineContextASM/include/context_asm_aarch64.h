// SPDX-License-Identifier: Apache-2.0

// The switch for aarch64 (AAPCS64), inlined into its caller.
//
// No register is pushed. Everything that the compiler may keep alive across the switch is declared as clobbered, so
// that it spills just what is alive there, with call frame information for it. What cannot be declared (the stack
// pointer, the frame pointer, and x19) is stored in the context, four words:
//
//     struct context_asm          while it is suspended
//     +0   fp    (x29)            of the suspended side
//     +8   pc                     where the switch goes on
//     +16  sp                     of the suspended side
//     +24  base  (x19)            of the suspended side
//
// fp and pc lie in the order of a frame record ({caller's fp, return address}) on purpose: the entry trampoline's x29
// points at the *resumer's* context, so that a walker of frame pointers steps from a coroutine into its resumer, and
// stops at pc 0 when it has none. The trampoline's CFI says the same to DWARF unwinders.
//
// Two store pairs, two load pairs and an indirect branch. x19 is LLVM's base pointer in frames that have an alloca and
// locals that are over-aligned or far from x29; it takes it there without asking the clobber list (on x86-64 it gives
// up rbx instead). Elsewhere x19 is an ordinary register that the switch preserves, and it fills a pair anyway.
//
// Both ways are branches, not a call and a return: an indirect branch is predicted by its history, a `ret` to another
// stack would always be mispredicted. The branch goes through x16, one of the two registers from which an indirect
// branch may reach both kinds of landing pad (bti c and bti j).
//
// Preserved: sp, x29, x19, and, through the clobber list, every value that lives in the C or Swift code around the
// switch, floating point, vectors and SVE included. Not switched: fpcr and fpsr (the thread's, see the contract),
// tpidr_el0 (the thread), and the guarded control stack (GCS must be off, as it is unless asked for).
//
// Pointer authentication: the saved pc is not signed, it lies in memory that only the runtime writes. What functions
// sign are their return addresses, with sp as the modifier. A context goes on with the sp it was suspended with, and
// the keys are the process's, so that they authenticate on whichever thread that happens.
//
// SME: a switch in streaming mode, or with ZA in use, is not supported. The mode, the vector length and a lazily saved
// ZA belong to the thread, and the save area that tpidr2_el0 points to lies on a stack.
#pragma once

#if defined(__aarch64__)  // a module's umbrella takes in every header of the folder

#include <stdint.h>

#if defined(__has_feature)
#if __has_feature(shadow_call_stack)
#error "The switch does not exchange the shadow call stack (x18): compile without -fsanitize=shadow-call-stack."
#endif
#endif

struct context_asm {
  uintptr_t fp;
  uintptr_t pc;
  uintptr_t sp;
  uintptr_t base;
};

// Where a new context starts: calls the function that `initialize` left at the stack's top. See context_asm_aarch64.S.
extern void context_asm_trampoline(void);

// Makes `context` ready to run `entry` with the first word passed to it, on the stack that ends at `top`. `entry` must
// not return. `resumer` is where the side that switches to this context will be saved: the link for unwinders.
static inline void context_asm_initialize(struct context_asm *context, void *top, struct context_asm *resumer,
                                          void (*entry)(uintptr_t)) {
  // sp must be a multiple of 16 whenever memory is reached through it: the hardware checks.
  uintptr_t *base = (uintptr_t *)((uintptr_t)top & ~(uintptr_t)15) - 2;
  base[0] = (uintptr_t)entry;
  context->sp = (uintptr_t)base;
  context->fp = (uintptr_t)resumer;
  context->pc = (uintptr_t)&context_asm_trampoline + 4;
  context->base = 0;
}

// x18 is a scratch register that compilers do use on Linux. On Android it belongs to the platform: clang never uses it
// there, and does not want it named.
#if defined(__ANDROID__)
#define CONTEXT_ASM_PLATFORM_CLOBBER
#else
#define CONTEXT_ASM_PLATFORM_CLOBBER , "x18"
#endif

// gcc tracks the first-fault register of SVE by its name. clang has none for it, and moves nothing that uses it.
#if defined(__clang__)
#define CONTEXT_ASM_FIRST_FAULT_CLOBBER
#else
#define CONTEXT_ASM_FIRST_FAULT_CLOBBER , "ffr"
#endif

// All but x0 to x3, in which the switches have their operands. The v registers stand for their wider names, the z registers,
// too. The predicates are declared even where SVE is off: a single function may have it on, by its target attribute.
#define CONTEXT_ASM_CLOBBERS                                                                                           \
  "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17", "x20", "x21", "x22",     \
      "x23", "x24", "x25", "x26", "x27", "x28", "x30", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9",     \
      "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25",  \
      "v26", "v27", "v28", "v29", "v30", "v31", "p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9", "p10",     \
      "p11", "p12", "p13", "p14", "p15", "memory",                                                                     \
      "cc" CONTEXT_ASM_PLATFORM_CLOBBER CONTEXT_ASM_FIRST_FAULT_CLOBBER

// What a switch returns, on the side that is continued: the word that was handed over, and the context in which the
// side that left is saved; of a coroutine that left, its mark.
struct context_asm_arrival {
  uintptr_t word;
  struct context_asm *departed;
  uintptr_t mark;
};

// Saves the running side in `from`, goes on where `to` was suspended, and hands `word` over, and a mark with it.
static inline __attribute__((always_inline)) struct context_asm_arrival context_asm_switch_marked(
    struct context_asm *from, struct context_asm *to, uintptr_t word, uintptr_t mark) {
  // LLVM takes a function that makes no call for a leaf, and leaves out the frame record that walkers need: ask for it.
  __asm__ volatile("" : : "r"(__builtin_frame_address(0)));
  // Both sides must agree on the registers, and a constraint cannot name one here. The word travels in x0, where the
  // entry function expects it.
  register uintptr_t x0 __asm__("x0") = word;
  register struct context_asm *x1 __asm__("x1") = from;
  register struct context_asm *x2 __asm__("x2") = to;
  register uintptr_t x3 __asm__("x3") = mark;
  __asm__ volatile(
      "adr x16, 1f\n\t"               // where this side goes on
      "mov x17, sp\n\t"               // (sp itself cannot be stored)
      "stp x29, x16, [x1]\n\t"        // save what cannot be clobbered: fp, pc,
      "stp x17, x19, [x1, #16]\n\t"   //   sp, base
      "ldp x29, x16, [x2]\n\t"        // take the other side's fp
      "ldp x17, x19, [x2, #16]\n\t"   // and base
      "mov sp, x17\n\t"               // and its stack, in one instruction: a signal finds a whole stack at any time
      "br x16\n"                      // the word travels in x0
      "1:\n\t"
      "hint #36\n\t"                  // bti j: a landing pad for the branch; a nop where there is no such thing
      // another side switched back: x1 is the context that it left in, x0 its word, x3 its mark
      : "+r"(x0), "+r"(x1), "+r"(x2), "+r"(x3)
      :
      : CONTEXT_ASM_CLOBBERS);
  return (struct context_asm_arrival){x0, x1, x3};
}

// The same without a mark. Returns when another side switches to `from`. `to` must be suspended; `from` and `to` must
// differ.
static inline __attribute__((always_inline)) struct context_asm_arrival context_asm_switch(
    struct context_asm *from, struct context_asm *to, uintptr_t word) {
  return context_asm_switch_marked(from, to, word, 0);
}

// The same between two contexts that lie side by side: into the coroutine that `pair[0]` belongs to, and out of it.
static inline __attribute__((always_inline)) struct context_asm_arrival context_asm_enter(struct context_asm *pair,
                                                                                          uintptr_t word) {
  return context_asm_switch(pair + 1, pair, word);
}

static inline __attribute__((always_inline)) uintptr_t context_asm_leave(struct context_asm *pair, uintptr_t word,
                                                                         uintptr_t mark) {
  return context_asm_switch_marked(pair, pair + 1, word, mark).word;
}

// From `from[0]` to `to[0]`: from one coroutine right into another, which ran before and is suspended. The resumer of
// the first becomes the resumer of the second: its registers move from `from[1]` to `to[1]`. When the first is saved,
// and its stack left, `value` is stored at `address`: a thread that finds it there may look at the context, or go on with
// it.
static inline __attribute__((always_inline)) void context_asm_pass(struct context_asm *from, struct context_asm *to,
                                                                   uintptr_t *address, uintptr_t value) {
  to[1] = from[1];
  from[1].pc = 0;
  __asm__ volatile("" : : "r"(__builtin_frame_address(0)));  // the frame record, as in `context_asm_switch`
  register uintptr_t x0 __asm__("x0") = value;
  register struct context_asm *x1 __asm__("x1") = from;
  register struct context_asm *x2 __asm__("x2") = to;
  register uintptr_t *x3 __asm__("x3") = address;
  __asm__ volatile(
      "adr x16, 1f\n\t"               // where the first goes on
      "mov x17, sp\n\t"               // (sp itself cannot be stored)
      "stp x29, x16, [x1]\n\t"        // save it in from[0]: fp, pc,
      "stp x17, x19, [x1, #16]\n\t"   //   sp, base
      "ldp x29, x16, [x2]\n\t"        // take the second's fp out of to[0],
      "ldp x17, x19, [x2, #16]\n\t"   //   its base
      "mov sp, x17\n\t"               // and its stack, in one instruction
      "stlr x0, [x3]\n\t"  // seen by others after the stores before it; litmus: switch-state
      "br x16\n"                      // no word travels: x0 is any
      "1:\n\t"                        // it was entered again, or by `pass`
      "hint #36\n\t"                  // bti j, as in `context_asm_switch_marked`
      : "+r"(x0), "+r"(x1), "+r"(x2), "+r"(x3)
      :
      : CONTEXT_ASM_CLOBBERS);
}

// Reads the registers of a suspended context: pc, sp, fp and the base register (x19). Returns 0, and writes nothing,
// for a destroyed one. A context that never ran stands at its trampoline.
static inline int context_asm_registers(const struct context_asm *context, uintptr_t registers[4]) {
  if (context->pc == 0) return 0;
  registers[0] = context->pc;
  registers[1] = context->sp;
  registers[2] = context->fp;
  registers[3] = context->base;
  return 1;
}

// From here on the context holds nothing. It owns no memory, so destroying it only makes unwinders, and a switch to it
// by mistake, end at address 0.
static inline void context_asm_destroy(struct context_asm *context) { context->pc = 0; }

#endif
