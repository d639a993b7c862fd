// SPDX-License-Identifier: Apache-2.0

// The switch for x86-64 (System V ABI), inlined into its caller.
//
// No register is pushed. Everything that the compiler may keep alive across the switch is declared as clobbered, so that
// it spills just what is alive there, with call frame information for it. What cannot be declared (the stack
// pointer, and the frame pointer) is stored in the context, three words:
//
//     struct context_asm          while it is suspended
//     +0   fp  (rbp)              of the suspended side
//     +8   pc  (rip)              where the switch goes on
//     +16  sp  (rsp)              of the suspended side
//
// fp and pc lie in the order of a frame record ({caller's fp, return address}) on purpose: the entry trampoline's rbp
// points at the *resumer's* context, so that a walker of frame pointers steps from a coroutine into its resumer, and
// stops at pc 0 when it has none. The trampoline's CFI says the same to DWARF unwinders.
//
// Three stores, two loads and an indirect jump. The stores are what it costs where a core retires one store a cycle: a
// fourth (rbx, which LLVM used to take as base pointer of over-aligned frames, and gives up where assembly clobbers it)
// adds a third to the time. Both ways are jumps, not a call and a return: an indirect jump is predicted by its history,
// a `ret` to another stack would always be mispredicted. The red zone below rsp stays untouched: nothing is pushed.
//
// Preserved: rsp, rbp, and, through the clobber list, every value that lives in the C or Swift code around the switch,
// floating point included. Not switched: mxcsr, the x87 control word, the signal mask (the thread's, see the contract),
// fs (the thread), and the shadow stack (user shadow stacks of CET must be off, as they are unless asked for).
#pragma once

#if defined(__x86_64__)  // a module's umbrella takes in every header of the folder

#include <stdint.h>

struct context_asm {
  uintptr_t fp;
  uintptr_t pc;
  uintptr_t sp;
};

// Where a new context starts: calls the function that `initialize` left at the stack's top. See context_asm_x86_64.S.
extern void context_asm_trampoline(void);

// Makes `context` ready to run `entry` with the first word passed to it, on the stack that ends at `top`. `entry` must
// not return. `resumer` is where the side that switches to this context will be saved: the link for unwinders.
static inline void context_asm_initialize(struct context_asm *context, void *top, struct context_asm *resumer,
                                          void (*entry)(uintptr_t)) {
  // The ABI wants rsp to be a multiple of 16 at a call instruction, and the trampoline does no more than call.
  uintptr_t *base = (uintptr_t *)((uintptr_t)top & ~(uintptr_t)15) - 2;
  base[0] = (uintptr_t)entry;
  context->sp = (uintptr_t)base;
  context->fp = (uintptr_t)resumer;
  context->pc = (uintptr_t)&context_asm_trampoline + 1;
}

// The registers of AVX-512. clang takes their names anywhere, so that they are declared even for a single function that
// has it on by its target attribute. gcc takes them only where the whole file has it.
#if defined(__AVX512F__) || defined(__clang__)
#define CONTEXT_ASM_WIDE_CLOBBERS                                                                                      \
  , "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27",        \
      "xmm28", "xmm29", "xmm30", "xmm31", "k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7"
#else
#define CONTEXT_ASM_WIDE_CLOBBERS
#endif

// The sixteen more general registers of APX, where the compiler may use them.
#if defined(__APX_F__)
#define CONTEXT_ASM_MORE_CLOBBERS                                                                                      \
  , "r16", "r17", "r18", "r19", "r20", "r21", "r22", "r23", "r24", "r25", "r26", "r27", "r28", "r29", "r30", "r31"
#else
#define CONTEXT_ASM_MORE_CLOBBERS
#endif

// What a switch returns, on the side that is continued: the word that was handed over, and the context in which the side
// that left is saved; of a coroutine that left, its mark.
struct context_asm_arrival {
  uintptr_t word;
  struct context_asm *departed;
  uintptr_t mark;
};

// All but rdi, rsi and rdx, in which the switches have their operands.
#define CONTEXT_ASM_CLOBBERS "rcx", CONTEXT_ASM_CLOBBERS_BUT_RCX
#define CONTEXT_ASM_CLOBBERS_BUT_RCX "r8", CONTEXT_ASM_CLOBBERS_BUT_RCX_AND_R8
#define CONTEXT_ASM_CLOBBERS_BUT_RCX_AND_R8                                                                            \
  "rax", "rbx", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5",        \
      "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "st", "st(1)", "st(2)",    \
      "st(3)", "st(4)", "st(5)", "st(6)", "st(7)", "mm0", "mm1", "mm2", "mm3", "mm4", "mm5", "mm6", "mm7", "memory",   \
      "cc" CONTEXT_ASM_WIDE_CLOBBERS CONTEXT_ASM_MORE_CLOBBERS

// Saves the running side in `from`, goes on where `to` was suspended, and hands `word` over. Returns when another side
// switches to `from`. `to` must be suspended; `from` and `to` must differ.
static inline __attribute__((always_inline)) struct context_asm_arrival context_asm_switch(
    struct context_asm *from, struct context_asm *to, uintptr_t word) {
  __asm__ volatile(
      "leaq 1f(%%rip), %%rax\n\t"   // where this side goes on
      "movq %%rbp, 0(%%rdi)\n\t"    // save what cannot be clobbered: fp,
      "movq %%rax, 8(%%rdi)\n\t"    //   pc,
      "movq %%rsp, 16(%%rdi)\n\t"   //   sp
      "movq 0(%%rsi), %%rbp\n\t"    // take the other side's fp
      "movq 16(%%rsi), %%rsp\n\t"   // and its stack, in one instruction: a signal finds a whole stack at any time
      "jmpq *8(%%rsi)\n"            // the word travels in rdx
      "1:\n\t"                      // another side switched back: rdi is the context it left in, rdx its word
      : "+D"(from), "+S"(to), "+d"(word)
      :
      : CONTEXT_ASM_CLOBBERS);
  return (struct context_asm_arrival){word, from, 0};
}

// The same from `pair[1]` to `pair[0]`, into the coroutine that `pair[0]` belongs to. One register has both addresses, and
// comes back with those of the coroutine that leaves: the code around the switch need not keep any in memory meanwhile.
static inline __attribute__((always_inline)) struct context_asm_arrival context_asm_enter(struct context_asm *pair,
                                                                                          uintptr_t word) {
  uintptr_t mark;
  __asm__ volatile(
      "leaq 1f(%%rip), %%rax\n\t"  // where the resumer goes on
      "movq %%rbp, 24(%%rdi)\n\t"  // save it in pair[1]: fp,
      "movq %%rax, 32(%%rdi)\n\t"  //   pc,
      "movq %%rsp, 40(%%rdi)\n\t"  //   sp
      "movq 0(%%rdi), %%rbp\n\t"   // take the coroutine's fp out of pair[0]
      "movq 16(%%rdi), %%rsp\n\t"  // and its stack, in one instruction
      "jmpq *8(%%rdi)\n\t"         // the word travels in rdx
      ".p2align 6\n"               // padding, never run: a consumer's loop goes on in a new line, 7% of an element
      "1:\n\t"                     // it was left: rdi is the pair that was (another one after `pass`), rsi the mark
      : "+D"(pair), "+d"(word), "=S"(mark)
      :
      : CONTEXT_ASM_CLOBBERS);
  return (struct context_asm_arrival){word, pair, mark};
}

// And from `pair[0]` to `pair[1]`, back to the resumer, with a mark in addition to the word.
static inline __attribute__((always_inline)) uintptr_t context_asm_leave(struct context_asm *pair, uintptr_t word,
                                                                         uintptr_t mark) {
  // Loaded in C: a caller that has just tested whether there is a resumer has it in a register.
  uintptr_t pc = pair[1].pc;
  __asm__ volatile(
      "leaq 1f(%%rip), %%rax\n\t"  // where the coroutine goes on
      "movq %%rbp, 0(%%rdi)\n\t"   // save it in pair[0]: fp,
      "movq %%rax, 8(%%rdi)\n\t"   //   pc,
      "movq %%rsp, 16(%%rdi)\n\t"  //   sp
      "movq 24(%%rdi), %%rbp\n\t"  // take the resumer's fp out of pair[1]
      "movq 40(%%rdi), %%rsp\n\t"  // and its stack, in one instruction
      "jmpq *%%rcx\n"              // the word travels in rdx, the mark in rsi
      "1:\n\t"                     // it was entered again, or by `pass`: rdx is the word
      : "+D"(pair), "+d"(word), "+S"(mark), "+c"(pc)
      :
      : CONTEXT_ASM_CLOBBERS_BUT_RCX);
  return word;
}

// From `from[0]` to `to[0]`: from one coroutine right into another, which ran before and is suspended. The resumer of
// the first becomes the resumer of the second: its registers move from `from[1]` to `to[1]`. When the first is saved,
// and its stack left, `value` is stored at `address`: a thread that finds it there may look at the context, or go on with
// it.
static inline __attribute__((always_inline)) void context_asm_pass(struct context_asm *from, struct context_asm *to,
                                                                   uintptr_t *address, uintptr_t value) {
  to[1] = from[1];
  from[1].pc = 0;
  register uintptr_t r8 __asm__("r8") = value;
  __asm__ volatile(
      "leaq 1f(%%rip), %%rax\n\t"  // where the first goes on
      "movq %%rbp, 0(%%rdi)\n\t"   // save it in from[0]: fp,
      "movq %%rax, 8(%%rdi)\n\t"   //   pc,
      "movq %%rsp, 16(%%rdi)\n\t"  //   sp
      "movq 0(%%rsi), %%rbp\n\t"   // take the second's fp out of to[0]
      "movq 16(%%rsi), %%rsp\n\t"  // and its stack, in one instruction
      "movq %%r8, (%%rcx)\n\t"     // seen by others after the stores before it, as any store is; litmus: switch-state
      "jmpq *8(%%rsi)\n"           // no word travels: rdx is any
      "1:\n\t"                     // it was entered again, or by `pass`
      : "+D"(from), "+S"(to), "+c"(address), "+r"(r8)
      :
      : "rdx", CONTEXT_ASM_CLOBBERS_BUT_RCX_AND_R8);
}

// Reads the registers of a suspended context: pc, sp, fp and the base register (none here: 0). Returns 0, and writes
// nothing, for a destroyed one. A context that never ran stands at its trampoline.
static inline int context_asm_registers(const struct context_asm *context, uintptr_t registers[4]) {
  if (context->pc == 0) return 0;
  registers[0] = context->pc;
  registers[1] = context->sp;
  registers[2] = context->fp;
  registers[3] = 0;
  return 1;
}

// From here on the context holds nothing. It owns no memory, so destroying it only makes unwinders, and a switch to it
// by mistake, end at address 0.
static inline void context_asm_destroy(struct context_asm *context) { context->pc = 0; }

#endif
