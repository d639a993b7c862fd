// Values that live in registers across a switch, while the other side ruins all registers. The compiler is asked to
// keep more values than there are registers of each kind: a register that is missing from the clobber list then holds
// one.

#include "context_test.h"

#include <alloca.h>
#include <string.h>

#if defined(__ARM_FEATURE_SVE)
#include <arm_sve.h>
#endif

enum { STACK = 64 * 1024, TIMES = 10 };

#define EACH(M)                                                                                                        \
  M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11) M(12) M(13) M(14) M(15) M(16) M(17) M(18) M(19) M(20) \
  M(21) M(22) M(23) M(24) M(25) M(26) M(27) M(28) M(29) M(30) M(31) M(32) M(33) M(34) M(35)

static struct coroutine subject;

// Resumes the subject until it is done, and ruins the registers each time. The subject's answers count the lost
// values.
static NOINLINE void resume_over_ruins(void (*entry)(uintptr_t)) {
  coroutine_create(&subject, STACK, entry);
  for (uintptr_t time = 0; time < TIMES; time++) {
    uintptr_t lost = resume(&subject, time + 1);
    ruin_registers();
    CHECK(lost == 0);
  }
  coroutine_free(&subject);
}

// MARK: Around an inlined switch

// Computes a value from a seed in a way that the compiler can't repeat, so that it has to keep the value. The second
// computation, after the switch, is the check.
INLINE uint64_t whole(uintptr_t seed, unsigned i) {
  uint64_t value = seed * 0x9e3779b97f4a7c15u + i;
  OPAQUE(value);
  return value;
}

#define KEEP_WHOLE(i) uint64_t whole##i = whole(seed, i);
#define LOST_WHOLE(i) lost += whole##i != whole(seed, i);

static void wholes_entry(uintptr_t seed) {
  uintptr_t lost = 0;
  for (;;) {
    EACH(KEEP_WHOLE)
    uintptr_t next = suspend(&subject, lost);
    lost = 0;
    EACH(LOST_WHOLE)
    seed = next;
  }
}

static void whole_numbers_live_across_a_switch(void) { resume_over_ruins(wholes_entry); }

INLINE double real(uintptr_t seed, unsigned i) {
  double value = (double)seed * 1.25 + i;
  OPAQUE_VECTOR(value);
  return value;
}

#define KEEP_REAL(i) double real##i = real(seed, i);
#define LOST_REAL(i) lost += real##i != real(seed, i);

static void reals_entry(uintptr_t seed) {
  uintptr_t lost = 0;
  long double extended = (long double)seed / 3;  // on x86-64 on the stack of the x87
  for (;;) {
    EACH(KEEP_REAL)
    uintptr_t next = suspend(&subject, lost);
    lost = extended != (long double)1 / 3;
    EACH(LOST_REAL)
    seed = next;
  }
}

static void floating_point_numbers_live_across_a_switch(void) { resume_over_ruins(reals_entry); }

// 128 bits: the upper halves too. Where AVX-512 may be used, the whole registers.
#if defined(__AVX512F__)
typedef double vector __attribute__((vector_size(64)));
#undef OPAQUE_VECTOR
#define OPAQUE_VECTOR(value) __asm__ volatile("" : "+v"(value))
#else
typedef double vector __attribute__((vector_size(16)));
#endif
enum { LANES = sizeof(vector) / sizeof(double) };

#define MAKE_VECTOR(name, i)                                                                                           \
  vector name = (vector){(double)seed} + (double)i;                                                                    \
  name[LANES - 1] = (double)seed * 0.5 + i;                                                                            \
  OPAQUE_VECTOR(name);
#define KEEP_VECTOR(i) MAKE_VECTOR(vector##i, i)
#define LOST_VECTOR(i)                                                                                                 \
  {                                                                                                                    \
    MAKE_VECTOR(again, i)                                                                                              \
    lost += again[0] != vector##i[0] || again[LANES / 2] != vector##i[LANES / 2];                                      \
    lost += again[LANES - 1] != vector##i[LANES - 1];                                                                  \
  }

static void vectors_entry(uintptr_t seed) {
  uintptr_t lost = 0;
  for (;;) {
    EACH(KEEP_VECTOR)
    uintptr_t next = suspend(&subject, lost);
    lost = 0;
    EACH(LOST_VECTOR)
    seed = next;
  }
}

static void vectors_live_across_a_switch(void) { resume_over_ruins(vectors_entry); }

#if defined(__AVX512F__)
static void masks_entry(uintptr_t seed) {
  uintptr_t lost = 0;
#define KEEP_MASK(i)                                                                                                   \
  uint16_t mask##i = (uint16_t)(seed * 257 + i);                                                                       \
  __asm__ volatile("" : "+k"(mask##i));
#define LOST_MASK(i) lost += mask##i != (uint16_t)(seed * 257 + i);
  for (;;) {
    EIGHT(KEEP_MASK, )
    uintptr_t next = suspend(&subject, lost);
    OPAQUE(seed);
    lost = 0;
    EIGHT(LOST_MASK, )
    seed = next;
  }
}

static void mask_registers_live_across_a_switch(void) { resume_over_ruins(masks_entry); }
#endif

#if defined(__ARM_FEATURE_SVE)
#define MAKE_SCALABLE(name, i)                                                                                         \
  svuint64_t name = svindex_u64(seed + i, 3);                                                                          \
  OPAQUE_VECTOR(name);
#define KEEP_SCALABLE(i) MAKE_SCALABLE(scalable##i, i)
#define LOST_SCALABLE(i)                                                                                               \
  {                                                                                                                    \
    MAKE_SCALABLE(again, i)                                                                                            \
    lost += svptest_any(svptrue_b64(), svcmpne_u64(svptrue_b64(), again, scalable##i));                                \
  }
#define MAKE_PREDICATE(name, i)                                                                                        \
  svbool_t name = svcmpeq_n_u64(svptrue_b64(), svindex_u64(0, 1), (seed + i) % svcntd());                              \
  __asm__ volatile("" : "+Upa"(name));
#define KEEP_PREDICATE(i) MAKE_PREDICATE(predicate##i, i)
#define LOST_PREDICATE(i)                                                                                              \
  {                                                                                                                    \
    MAKE_PREDICATE(again, i)                                                                                           \
    lost += svptest_any(svptrue_b8(), sveor_b_z(svptrue_b8(), again, predicate##i));                                   \
  }

static void scalable_entry(uintptr_t seed) {
  uintptr_t lost = 0;
  for (;;) {
    EACH(KEEP_SCALABLE)
    SIXTEEN(KEEP_PREDICATE, )
    uintptr_t next = suspend(&subject, lost);
    lost = 0;
    EACH(LOST_SCALABLE)
    SIXTEEN(LOST_PREDICATE, )
    seed = next;
  }
}

static void scalable_vectors_and_predicates_live_across_a_switch(void) { resume_over_ruins(scalable_entry); }
#endif

// MARK: Around a call that switches

// A callee must preserve these registers, also across the switch inside it.
static NOINLINE uintptr_t suspend_in_a_call(uintptr_t word) {
  word = suspend(&subject, word);
  OPAQUE(word);
  return word;
}

static void callers_entry(uintptr_t seed) {
  uintptr_t lost = 0;
  for (;;) {
    EACH(KEEP_WHOLE)
    EACH(KEEP_REAL)
    uintptr_t next = suspend_in_a_call(lost);
    lost = 0;
    EACH(LOST_WHOLE)
    EACH(LOST_REAL)
    seed = next;
  }
}

static void a_caller_keeps_its_values_across_a_call_that_switches(void) { resume_over_ruins(callers_entry); }

// MARK: Frames with a base pointer

// A frame with an over-aligned local and an alloca. Neither the stack pointer nor the frame pointer alone finds its
// locals, and LLVM takes a third register (x19; rbx on x86-64) without a look at the clobber list.
static void based_entry(uintptr_t seed) {
  uintptr_t lost = 0;
  for (;;) {
    _Alignas(64) unsigned char local[512];
    size_t size = seed * 48;
    OPAQUE(size);
    unsigned char *more = alloca(size);
    memset(local, (int)seed, sizeof local);
    memset(more, (int)seed + 1, size);
    unsigned char *local_before = local, *more_before = more;
    OPAQUE(local_before);
    OPAQUE(more_before);

    uintptr_t next = suspend(&subject, lost);
    lost = (uintptr_t)local % 64 != 0 || local != local_before || more != more_before;
    for (size_t i = 0; i < sizeof local; i++) lost += local[i] != (unsigned char)seed;
    for (size_t i = 0; i < size; i++) lost += more[i] != (unsigned char)(seed + 1);
    seed = next;
  }
}

static void over_aligned_locals_beside_an_alloca_are_found_again(void) { resume_over_ruins(based_entry); }

// The same on the other side, whose base pointer is a different one.
static NOINLINE uintptr_t resume_with_a_base_pointer(uintptr_t seed) {
  _Alignas(64) unsigned char local[512];
  size_t size = seed * 16;
  OPAQUE(size);
  unsigned char *more = alloca(size);
  memset(local, 1, sizeof local);
  memset(more, 2, size);
  unsigned char *local_before = local, *more_before = more;
  OPAQUE(local_before);
  OPAQUE(more_before);
  uintptr_t lost = resume(&subject, seed);
  lost += (uintptr_t)local % 64 != 0 || local != local_before || more != more_before;
  for (size_t i = 0; i < sizeof local; i++) lost += local[i] != 1;
  for (size_t i = 0; i < size; i++) lost += more[i] != 2;
  return lost;
}

static void two_frames_with_base_pointers_switch_to_each_other(void) {
  coroutine_create(&subject, STACK, based_entry);
  for (uintptr_t time = 0; time < TIMES; time++) CHECK(resume_with_a_base_pointer(time + 1) == 0);
  coroutine_free(&subject);
}

#if defined(CONTEXT_TEST_ASM)
// MARK: From one coroutine right into another

static struct coroutine third;

// Runs between two passes of the subject: ruins the registers, and passes back.
static void passed_entry(uintptr_t word) {
  uintptr_t stored = 0;
  suspend(&third, word);
  for (;;) {
    ruin_registers();
    context_asm_pass(&third.own, &subject.own, &stored, 1);
    CHECK(stored == 1);
    stored = 0;
  }
}

static void passing_entry(uintptr_t seed) {
  uintptr_t lost = 0, stored = 0;
  for (;;) {
    _Alignas(64) unsigned char local[512];
    size_t size = seed * 48;
    OPAQUE(size);
    unsigned char *more = alloca(size);
    memset(local, (int)seed, sizeof local);
    memset(more, (int)seed + 1, size);
    EACH(KEEP_WHOLE)
    EACH(KEEP_REAL)
    context_asm_pass(&subject.own, &third.own, &stored, seed);
    EACH(LOST_WHOLE)
    EACH(LOST_REAL)
    lost += stored != seed || (uintptr_t)local % 64 != 0;
    for (size_t i = 0; i < sizeof local; i++) lost += local[i] != (unsigned char)seed;
    for (size_t i = 0; i < size; i++) lost += more[i] != (unsigned char)(seed + 1);
    seed = suspend(&subject, lost);
    lost = 0;
  }
}

static void what_lives_across_a_pass_is_kept(void) {
  coroutine_create(&third, STACK, passed_entry);
  CHECK(resume(&third, 7) == 7);
  resume_over_ruins(passing_entry);
  coroutine_free(&third);
}
#endif

// MARK: What is the thread's

enum rounding { TO_NEAREST, UPWARD };

// Both units of x86-64: the vector unit and the x87.
static enum rounding rounding(void) {
#if defined(__x86_64__)
  unsigned mxcsr;
  unsigned short control;
  __asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(mxcsr), "=m"(control));
  CHECK((mxcsr >> 13 & 3) == (unsigned)(control >> 10 & 3));
  return (mxcsr >> 13 & 3) == 2 ? UPWARD : TO_NEAREST;
#else
  uint64_t control;
  __asm__ volatile("mrs %0, fpcr" : "=r"(control));
  return (control >> 22 & 3) == 1 ? UPWARD : TO_NEAREST;
#endif
}

static void round_by(enum rounding mode) {
#if defined(__x86_64__)
  unsigned mxcsr;
  unsigned short control;
  __asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(mxcsr), "=m"(control));
  mxcsr = (mxcsr & ~0x6000u) | (mode == UPWARD ? 0x4000u : 0);
  control = (unsigned short)((control & ~0x0c00u) | (mode == UPWARD ? 0x0800u : 0));
  __asm__ volatile("ldmxcsr %0\n\tfldcw %1" : : "m"(mxcsr), "m"(control));
#else
  uint64_t control;
  __asm__ volatile("mrs %0, fpcr" : "=r"(control));
  control = (control & ~(3ull << 22)) | (mode == UPWARD ? 1ull << 22 : 0);
  __asm__ volatile("msr fpcr, %0" : : "r"(control));
#endif
}

// Answers with the mode that it finds, and then sets the other one.
static void rounding_entry(uintptr_t word) {
  for (;;) {
    (void)word;
    enum rounding found = rounding();
    round_by(found == UPWARD ? TO_NEAREST : UPWARD);
    word = suspend(&subject, found);
  }
}

static void the_rounding_mode_is_the_threads(void) {
  coroutine_create(&subject, STACK, rounding_entry);
  // Set after the context was made, and before it begins.
  round_by(UPWARD);
  CHECK(resume(&subject, 0) == UPWARD);
  for (int time = 0; time < TIMES; time++) {
    CHECK(rounding() == TO_NEAREST);
    CHECK(resume(&subject, 0) == TO_NEAREST);
    CHECK(rounding() == UPWARD);
    CHECK(resume(&subject, 0) == UPWARD);
  }
  round_by(TO_NEAREST);
  coroutine_free(&subject);
}

const struct test register_tests[] = {
    {"whole numbers live across a switch", whole_numbers_live_across_a_switch},
    {"floating-point numbers live across a switch", floating_point_numbers_live_across_a_switch},
    {"vectors live across a switch", vectors_live_across_a_switch},
#if defined(__AVX512F__)
    {"mask registers live across a switch", mask_registers_live_across_a_switch},
#endif
#if defined(__ARM_FEATURE_SVE)
    {"scalable vectors and predicates live across a switch", scalable_vectors_and_predicates_live_across_a_switch},
#endif
    {"a caller keeps its values across a call that switches", a_caller_keeps_its_values_across_a_call_that_switches},
    {"the rounding mode is the thread's", the_rounding_mode_is_the_threads},
    {"over-aligned locals beside an alloca are found again", over_aligned_locals_beside_an_alloca_are_found_again},
    {"two frames with base pointers switch to each other", two_frames_with_base_pointers_switch_to_each_other},
#if defined(CONTEXT_TEST_ASM)
    {"what lives across a pass is kept", what_lives_across_a_pass_is_kept},
#endif
    {0, 0},
};
