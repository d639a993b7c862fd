// Backtraces across contexts, by the unwinder of the C compiler (call frame information) and by frame pointers. This
// file is compiled with -fno-omit-frame-pointer, and with unwind tables, at every optimisation level.
//
// Each backtrace here has the same shape: functions of the coroutine, its entry function, the trampoline, and then
// functions of the resumer that the coroutine's link names. With Boost and ucontext it ends at the entry function.

#include "context_test.h"

#include <unwind.h>

enum { STACK = 64 * 1024, FRAMES = 64 };

// MARK: Collecting

// The functions on the stack, by the addresses at which their unwind information begins, innermost first.
struct backtrace {
  int count;
  void *functions[FRAMES];
};

static _Unwind_Reason_Code collect_frame(struct _Unwind_Context *frame, void *data) {
  struct backtrace *backtrace = data;
  if (backtrace->count == FRAMES) return _URC_END_OF_STACK;
  int exact = 0;
  uintptr_t address = _Unwind_GetIPInfo(frame, &exact);
  if (address == 0) return _URC_NO_REASON;  // the end: libgcc's unwinder shows it, and stops there
  // _Unwind_FindEnclosingFunction expects a return address and looks at what precedes it.
  backtrace->functions[backtrace->count++] = _Unwind_FindEnclosingFunction((void *)(address + (exact ? 1 : 0)));
  return _URC_NO_REASON;
}

INLINE void collect(struct backtrace *backtrace) {
  backtrace->count = 0;
  _Unwind_Backtrace(collect_frame, backtrace);
}

// Whether `functions` is what lies on the stack from `start` on, one after the other.
static int matches(const struct backtrace *backtrace, int start, int count, void *const *functions) {
  if (start + count > backtrace->count) return 0;
  for (int i = 0; i < count; i++)
    if (backtrace->functions[start + i] != functions[i]) return 0;
  return 1;
}

#define FUNCTIONS(...) sizeof((void *[]){__VA_ARGS__}) / sizeof(void *), (void *[]) { __VA_ARGS__ }

// MARK: A running context

static struct coroutine inner;
static struct backtrace found;

static NOINLINE void look_around(void) {
  collect(&found);
  __asm__ volatile("");  // no tail call: the frame stays; likewise in every function that a backtrace must show
}

static void inner_entry(uintptr_t word) {
  for (;;) {
    look_around();
    word = suspend(&inner, word);
  }
}

static NOINLINE void resume_inner(void) {
  resume(&inner, 1);
  __asm__ volatile("");
}

#if !defined(CONTEXT_TEST_ASM)

static void a_backtrace_of_a_running_context_ends_after_its_entry_function(void) {
  coroutine_create(&inner, STACK, inner_entry);
  resume_inner();
  CHECK(matches(&found, 0, FUNCTIONS(look_around, inner_entry)));
  for (int i = 2; i < found.count; i++) CHECK(found.functions[i] != (void *)resume_inner);
  coroutine_free(&inner);
}

const struct test unwinding_tests[] = {
    {"a backtrace of a running context ends after its entry function",
     a_backtrace_of_a_running_context_ends_after_its_entry_function},
    {0, 0},
};

#else

static NOINLINE void a_backtrace_goes_on_into_the_resumer(void) {
  coroutine_create(&inner, STACK, inner_entry);
  for (int time = 0; time < 3; time++) {
    resume_inner();
    CHECK(matches(&found, 0,
                  FUNCTIONS(look_around, inner_entry, TRAMPOLINE, resume_inner, a_backtrace_goes_on_into_the_resumer)));
  }
  coroutine_free(&inner);
}

// After a pass, the context that was passed to stands on the resumer of the one that passed.
static struct coroutine passing;
static uintptr_t passed;

static void passing_entry(uintptr_t word) {
  for (;;) {
    passed = 0;
    context_asm_pass(&passing.own, &inner.own, &passed, word);
    CHECK(passed == word);
    look_around();
    word = suspend(&passing, word + 1);
  }
}

static NOINLINE void resume_passing(void) {
  // The other context has suspended.
  arrival back = context_asm_enter(&passing.own, 2);
  CHECK(back.departed == &inner.own);
  BACKEND(_destroy)(&inner.resumer);
  __asm__ volatile("");
}

static NOINLINE void a_backtrace_goes_on_into_the_resumer_of_the_one_that_passed(void) {
  uintptr_t registers[4] = {0, 0, 0, 0};
  coroutine_create(&inner, STACK, inner_entry);
  coroutine_create(&passing, STACK, passing_entry);
  resume_inner();
  for (int time = 0; time < 3; time++) {
    resume_passing();
    CHECK(matches(&found, 0,
                  FUNCTIONS(look_around, inner_entry, TRAMPOLINE, resume_passing,
                            a_backtrace_goes_on_into_the_resumer_of_the_one_that_passed)));
    CHECK(!BACKEND(_registers)(&passing.resumer, registers));
    CHECK(BACKEND(_registers)(&passing.own, registers));
    CHECK(stack_contains(passing.stack, registers[1]));
    CHECK(_Unwind_FindEnclosingFunction((void *)registers[0]) == (void *)passing_entry);
    CHECK(resume(&passing, 0) == 3);
    CHECK(found.functions[1] == (void *)passing_entry);
  }
  coroutine_free(&passing);
  coroutine_free(&inner);
}

// Compares the registers with which the unwinder arrives at the resumer with those in the resumer's context.
static _Unwind_Reason_Code compare_registers(struct _Unwind_Context *frame, void *data) {
  int *compared = data;
  uintptr_t registers[4] = {0, 0, 0, 0};
  CHECK(BACKEND(_registers)(&inner.resumer, registers));
  if (_Unwind_GetIP(frame) != registers[0]) return _URC_NO_REASON;
  *compared += 1;
  CHECK(_Unwind_GetCFA(frame) == registers[1]);  // of the frame that was left: the stack pointer of this one
#if defined(__x86_64__)
  CHECK(_Unwind_GetGR(frame, 6) == registers[2]);
#else
  CHECK(_Unwind_GetGR(frame, 29) == registers[2]);
  CHECK(_Unwind_GetGR(frame, 19) == registers[3]);
#endif
  return _URC_NO_REASON;
}

static void comparing_entry(uintptr_t word) {
  int compared = 0;
  _Unwind_Backtrace(compare_registers, &compared);
  CHECK(compared == 1);
  finish(&inner, word);
}

static void an_unwinder_arrives_at_the_resumer_with_its_registers(void) {
  coroutine_create(&inner, STACK, comparing_entry);
  resume_inner();
  coroutine_free(&inner);
}

// MARK: One context in another

static struct coroutine outer;

static void outer_entry(uintptr_t word) {
  for (;;) {
    resume_inner();
    word = suspend(&outer, word);
  }
}

static NOINLINE void resume_outer(void) {
  resume(&outer, 1);
  __asm__ volatile("");
}

// The coroutine's stack lies below its resumer's, and then above it: some unwinders expect stacks to grow one way.
static NOINLINE void a_backtrace_crosses_two_contexts_whichever_stack_is_higher(void) {
  struct stack both = stack_create(2 * STACK);
  struct stack low = {both.base, STACK}, high = {both.base + STACK, STACK};
  for (int time = 0; time < 2; time++) {
    inner.stack = time == 0 ? low : high;
    outer.stack = time == 0 ? high : low;
    initialize(&inner.own, inner.stack, &inner.resumer, inner_entry);
    initialize(&outer.own, outer.stack, &outer.resumer, outer_entry);
    resume_outer();
    CHECK(matches(&found, 0,
                  FUNCTIONS(look_around, inner_entry, TRAMPOLINE, resume_inner, outer_entry, TRAMPOLINE, resume_outer,
                            a_backtrace_crosses_two_contexts_whichever_stack_is_higher)));
    BACKEND(_destroy)(&inner.own);
    BACKEND(_destroy)(&outer.own);
  }
  stack_free(both);
}

// MARK: The end

static context starter, gone, detached;

static void detached_entry(uintptr_t word) {
  look_around();
  BACKEND(_switch)(&detached, &starter, word);
  __builtin_trap();
}

// Continued symmetrically, by a side that is saved elsewhere than its link says.
static void a_backtrace_ends_at_the_trampoline_when_the_resumer_is_destroyed(void) {
  struct stack stack = stack_create(STACK);
  initialize(&detached, stack, &gone, detached_entry);
  BACKEND(_destroy)(&gone);
  BACKEND(_switch)(&starter, &detached, 1);
  CHECK(found.count == 3);
  CHECK(matches(&found, 0, FUNCTIONS(look_around, detached_entry, TRAMPOLINE)));
  BACKEND(_destroy)(&detached);
  stack_free(stack);
}

// MARK: Suspended contexts

static context probe;

static void probe_entry(uintptr_t word) {
  look_around();
  BACKEND(_switch)(&probe, &starter, word);
  __builtin_trap();
}

// Unwinds a suspended context, by a probe whose link names that context as its resumer.
static NOINLINE void look_into(context *suspended) {
  struct stack stack = stack_create(STACK);
  initialize(&probe, stack, suspended, probe_entry);
  BACKEND(_switch)(&starter, &probe, 1);
  CHECK(matches(&found, 0, FUNCTIONS(look_around, probe_entry, TRAMPOLINE)));
  BACKEND(_destroy)(&probe);
  stack_free(stack);
}

static NOINLINE uintptr_t suspend_deeper(uintptr_t depth) {
  uintptr_t word = depth == 0 ? suspend(&inner, 1) : suspend_deeper(depth - 1);
  __asm__ volatile("");
  return word;
}

static void suspended_entry(uintptr_t word) { finish(&inner, suspend_deeper(word)); }

static void a_backtrace_of_a_suspended_context_ends_at_its_trampoline(void) {
  coroutine_create(&inner, STACK, suspended_entry);
  look_into(&inner.own);
  CHECK(found.count == 4);  // it never ran: it stands at its trampoline
  CHECK(matches(&found, 3, FUNCTIONS(TRAMPOLINE)));

  resume(&inner, 2);
  look_into(&inner.own);
  CHECK(found.count == 8);
  CHECK(matches(&found, 3, FUNCTIONS(suspend_deeper, suspend_deeper, suspend_deeper, suspended_entry, TRAMPOLINE)));
  coroutine_free(&inner);
}

// MARK: Frame pointers

// A frame record: what the frame pointer points at in every function that has one, and in a suspended context.
struct frame_record {
  const struct frame_record *caller;
  void *return_address;
};

// A return address without the signature that it may carry on aarch64.
INLINE void *without_signature(void *address) {
#if defined(__aarch64__)
  register void *x30 __asm__("x30") = address;
  __asm__("hint #7" : "+r"(x30));  // xpaclri
  return x30;
#else
  return address;
#endif
}

static void collect_records(struct backtrace *backtrace, const struct frame_record *record, void *last) {
  backtrace->count = 0;
  while (backtrace->count < FRAMES && record->return_address != 0) {
    void *function = _Unwind_FindEnclosingFunction(without_signature(record->return_address));
    backtrace->functions[backtrace->count++] = function;
    if (function == last) return;  // the C library's frames beyond this one have no frame pointers
    record = record->caller;
  }
}

static NOINLINE void a_walk_along_frame_pointers_goes_on_into_the_resumer(void);

static NOINLINE void walk_frame_pointers(void) {
  collect_records(&found, __builtin_frame_address(0), (void *)a_walk_along_frame_pointers_goes_on_into_the_resumer);
  __asm__ volatile("");
}

static void walking_entry(uintptr_t word) {
  for (;;) {
    walk_frame_pointers();
    word = suspend(&inner, word);
  }
}

static NOINLINE void a_walk_along_frame_pointers_goes_on_into_the_resumer(void) {
  coroutine_create(&inner, STACK, walking_entry);
  resume_inner();
  CHECK(matches(&found, 0,
                FUNCTIONS(walking_entry, TRAMPOLINE, resume_inner,
                          a_walk_along_frame_pointers_goes_on_into_the_resumer)));
  CHECK(found.count == 4);

  // In a suspended context the chain begins at the saved frame pointer, here the entry function's, and ends at pc 0.
  uintptr_t registers[4] = {0, 0, 0, 0};
  CHECK(BACKEND(_registers)(&inner.own, registers));
  collect_records(&found, (const struct frame_record *)registers[2], 0);
  CHECK(matches(&found, 0, FUNCTIONS(TRAMPOLINE)));
  CHECK(found.count == 1);
  coroutine_free(&inner);
}

const struct test unwinding_tests[] = {
    {"a backtrace goes on into the resumer", a_backtrace_goes_on_into_the_resumer},
    {"a backtrace goes on into the resumer of the one that passed",
     a_backtrace_goes_on_into_the_resumer_of_the_one_that_passed},
    {"an unwinder arrives at the resumer with its registers", an_unwinder_arrives_at_the_resumer_with_its_registers},
    {"a backtrace crosses two contexts, whichever stack is higher",
     a_backtrace_crosses_two_contexts_whichever_stack_is_higher},
    {"a backtrace ends at the trampoline when the resumer is destroyed",
     a_backtrace_ends_at_the_trampoline_when_the_resumer_is_destroyed},
    {"a backtrace of a suspended context ends at its trampoline",
     a_backtrace_of_a_suspended_context_ends_at_its_trampoline},
    {"a walk along frame pointers goes on into the resumer", a_walk_along_frame_pointers_goes_on_into_the_resumer},
    {0, 0},
};

#endif
