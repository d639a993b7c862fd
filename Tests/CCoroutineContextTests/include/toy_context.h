// A context backend that tests the conformance suite: the simplest that keeps the contract. It can be told to break
// the contract in one way. x86-64 only.
#pragma once

#include <stdint.h>

// The way in which it breaks the contract.
enum toy_defect {
  toy_keeps_the_contract,
  toy_loses_a_register,
  toy_misaligns_the_stack,
  toy_truncates_the_word,
  toy_tells_the_wrong_departed,
  toy_tells_the_wrong_frame_pointer,
  toy_tells_the_wrong_layout,
  toy_has_no_end_for_unwinders,
  toy_stays_live_when_destroyed,
  toy_keeps_the_rounding_mode,
  toy_has_no_layout,
  toy_lets_the_entry_return,
  toy_names_another_module,
  toy_names_other_symbols,
};
// To be called before the first context is made.
void toy_context_break(enum toy_defect defect);
_Bool toy_context_has(enum toy_defect defect);

// The record of a suspended side.
struct toy_context {
  uintptr_t fp, pc, sp, rbx, r12, r13, r14, r15;
  uint32_t mxcsr;
};

struct toy_arrival {
  uintptr_t word;
  struct toy_context *departed;
};

void toy_context_initialize(struct toy_context *context, void *top, void (*entry)(uintptr_t));
struct toy_arrival toy_context_switch(struct toy_context *from, struct toy_context *to, uintptr_t word);
int toy_context_registers(const struct toy_context *context, uintptr_t registers[4]);
int toy_context_layout(uintptr_t registers[4], uintptr_t *live, int *is_indirect);
void toy_context_destroy(struct toy_context *context);
