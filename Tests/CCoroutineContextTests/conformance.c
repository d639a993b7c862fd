#include "conformance.h"

#include <fenv.h>
#include <unwind.h>

__attribute__((noinline)) uintptr_t conformance_stack_misalignment(void) {
  // The frame record lies at a multiple of 16 if the stack did at the call: the record's two words are pushed next.
  return (uintptr_t)__builtin_frame_address(0) % 16;
}

int conformance_rounding_mode(void) {
  // Volatile: a compiler that assumes the usual rounding mode would compute one quotient as the negative of the
  // other.
  volatile double one = 1, minus_one = -1, three = 3, third = one / three, minus_third = minus_one / three;
  double sum = third + minus_third;
  return sum > 0 ? FE_UPWARD : sum < 0 ? FE_DOWNWARD : 0;
}

#if defined(__x86_64__)
// All but rbp, the frame pointer: a switch that lost it would not come back here.
enum { registers = 5 };
#elif defined(__aarch64__)
// x19 to x28.
enum { registers = 10 };
#else
#error "Name the registers that a function has to preserve on this architecture."
#endif

// In assembly, since a compiler may move the values into memory before the call.
uintptr_t conformance_registers_over(const uintptr_t *values, uintptr_t *found, void (*body)(void *), void *argument);

uintptr_t conformance_registers_lost(uintptr_t seed, void (*body)(void *), void *argument) {
  uintptr_t values[registers], found[registers], lost = 0;
  for (int i = 0; i < registers; i++) values[i] = seed * 0x9e3779b97f4a7c15u + (uintptr_t)i;
  conformance_registers_over(values, found, body, argument);
  for (int i = 0; i < registers; i++) lost += found[i] != values[i];
  return lost;
}

__attribute__((noinline)) void conformance_descend(int depth, void (*body)(void *), void *argument) {
  if (depth == 0)
    body(argument);
  else
    conformance_descend(depth - 1, body, argument);
  // Uses the frame after the calls, so that neither is a tail call and the frame keeps its record.
  __asm__ volatile("" : : "r"(__builtin_frame_address(0)) : "memory");
}

struct walk {
  struct conformance_frame *frames;
  size_t count, capacity;
};

static _Unwind_Reason_Code add_frame(struct _Unwind_Context *context, void *argument) {
  struct walk *walk = argument;
  uintptr_t address = _Unwind_GetIP(context);
  if (address == 0 || walk->count == walk->capacity) return _URC_END_OF_STACK;
  walk->frames[walk->count++] = (struct conformance_frame){address, _Unwind_GetCFA(context)};
  return _URC_NO_REASON;
}

size_t conformance_backtrace(struct conformance_frame *frames, size_t capacity) {
  struct walk walk = {frames, 0, capacity};
  _Unwind_Backtrace(add_frame, &walk);
  return walk.count;
}
