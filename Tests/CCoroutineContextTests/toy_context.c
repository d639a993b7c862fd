#include "toy_context.h"

#include <stddef.h>

uint32_t toy_context_defect;  // the switch reads it, too

void toy_context_break(enum toy_defect defect) { toy_context_defect = defect; }
_Bool toy_context_has(enum toy_defect defect) { return toy_context_defect == defect; }

#if defined(__x86_64__)

extern void toy_context_trampoline(void);
extern void toy_context_endless_trampoline(void);

void toy_context_initialize(struct toy_context *context, void *top, void (*entry)(uintptr_t)) {
  uintptr_t *base = (uintptr_t *)((uintptr_t)top & ~(uintptr_t)15) - 2;
  int is_endless = toy_context_defect == toy_has_no_end_for_unwinders;
  if (toy_context_defect == toy_misaligns_the_stack) base--;
  base[0] = (uintptr_t)entry;
  // What an unwinder takes for the caller of the trampoline without an end.
  if (is_endless) base[1] = (uintptr_t)&toy_context_endless_trampoline + 1;
  *context = (struct toy_context){
      .sp = (uintptr_t)base,
      .pc = (uintptr_t)(is_endless ? &toy_context_endless_trampoline : &toy_context_trampoline) + 1,
      .mxcsr = 0x1f80,
  };
}

int toy_context_registers(const struct toy_context *context, uintptr_t registers[4]) {
  if (context->pc == 0) return 0;
  registers[0] = context->pc;
  registers[1] = context->sp;
  registers[2] = toy_context_defect == toy_tells_the_wrong_frame_pointer ? context->sp : context->fp;
  registers[3] = context->rbx;
  return 1;
}

int toy_context_layout(uintptr_t registers[4], uintptr_t *live, int *is_indirect) {
  if (toy_context_defect == toy_has_no_layout) return 0;
  registers[0] = offsetof(struct toy_context, pc);
  registers[1] = offsetof(struct toy_context, sp);
  registers[2] = offsetof(struct toy_context, fp);
  registers[3] = toy_context_defect == toy_tells_the_wrong_layout ? offsetof(struct toy_context, pc)
                                                                  : offsetof(struct toy_context, rbx);
  *live = offsetof(struct toy_context, pc);
  *is_indirect = 0;
  return 1;
}

void toy_context_destroy(struct toy_context *context) {
  if (toy_context_defect != toy_stays_live_when_destroyed) context->pc = 0;
}

#endif
