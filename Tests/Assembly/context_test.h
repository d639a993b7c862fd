// What the conformance tests of the C layer share: the names of the backend under test, coroutines over it, stacks with
// a guard page, and a way to ruin every register.
#pragma once

#include <stddef.h>
#include <stdint.h>

// The backend under test: its header, and how its names begin, as scripts/test-assembly.sh says them.
// CONTEXT_TEST_NEW is defined, too, for what only one of them has.
#if !defined(CONTEXT_TEST)
#error "Say which backend is tested: -DCONTEXT_TEST_HEADER='\"context_asm.h\"' -DCONTEXT_TEST=context_asm -DCONTEXT_TEST_ASM."
#endif
#include CONTEXT_TEST_HEADER
#define JOINED(name, suffix) name##suffix
#define EXPANDED(name, suffix) JOINED(name, suffix)
#define BACKEND(suffix) EXPANDED(CONTEXT_TEST, suffix)

typedef struct BACKEND() context;
typedef struct BACKEND(_arrival) arrival;

// Functions that must stay separate functions, each with its own address: unwinders are asked for them.
#if defined(__clang__)
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noipa))
#endif
#define INLINE static inline __attribute__((always_inline))

// Counts a failure of the running test and prints where. The test goes on.
void check_failed(const char *file, int line, const char *condition);
#define CHECK(condition) ((condition) ? (void)0 : check_failed(__FILE__, __LINE__, #condition))

#if defined(CONTEXT_TEST_ASM)
// The trampoline as unwinders know it. Its unwind information begins one byte before its first instruction.
// (_Unwind_FindEnclosingFunction expects a return address, and looks at what precedes it.)
#define TRAMPOLINE _Unwind_FindEnclosingFunction((char *)&context_asm_trampoline + 1)
#endif

// The tests, by file: a name and a function, the last with none.
struct test {
  const char *name;
  void (*run)(void);
};
extern const struct test switching_tests[], register_tests[], unwinding_tests[];

// A stack with a page below it that faults.
struct stack {
  char *base;
  size_t size;
};
struct stack stack_create(size_t size);
void stack_free(struct stack stack);
INLINE int stack_contains(struct stack stack, uintptr_t address) {
  return address - (uintptr_t)stack.base <= stack.size;
}

INLINE void initialize(context *new, struct stack stack, context *resumer, void (*entry)(uintptr_t)) {
#if defined(CONTEXT_TEST_ASM)
  BACKEND(_initialize)(new, stack.base + stack.size, resumer, entry);
#else
  BACKEND(_initialize)(new, stack.base + stack.size, stack.size, resumer, entry);
#endif
}

// An asymmetric coroutine, switched as `ContextLink` of the module Context does it.
struct coroutine {
  context own;
  context resumer;
  struct stack stack;
};

INLINE void coroutine_create(struct coroutine *coroutine, size_t size, void (*entry)(uintptr_t)) {
  coroutine->stack = stack_create(size);
  initialize(&coroutine->own, coroutine->stack, &coroutine->resumer, entry);
  BACKEND(_destroy)(&coroutine->resumer);
}

INLINE void coroutine_free(struct coroutine *coroutine) {
  BACKEND(_destroy)(&coroutine->own);
  stack_free(coroutine->stack);
}

INLINE uintptr_t resume(struct coroutine *coroutine, uintptr_t word) {
#if defined(CONTEXT_TEST_ASM)
  arrival back = BACKEND(_enter)(&coroutine->own, word);
  // `suspend` gives each word such a mark.
  if (back.mark != ~back.word) __builtin_trap();
#else
  arrival back = BACKEND(_switch)(&coroutine->resumer, &coroutine->own, word);
#endif
  // It left for good by its own context, the first of the pair.
  BACKEND(_destroy)(&((struct coroutine *)back.departed)->resumer);
  return back.word;
}

INLINE uintptr_t suspend(struct coroutine *coroutine, uintptr_t word) {
#if defined(CONTEXT_TEST_ASM)
  return BACKEND(_leave)(&coroutine->own, word, ~word);
#else
  return BACKEND(_switch)(&coroutine->own, &coroutine->resumer, word).word;
#endif
}

// The last act of an entry function.
INLINE _Noreturn void finish(struct coroutine *coroutine, uintptr_t word) {
  suspend(coroutine, word);
  __builtin_trap();
}

// Hides from the compiler where a value comes from, so that it has to keep the value in a register of the given
// class.
#if defined(__x86_64__)
#define VECTOR_REGISTER "x"
#else
#define VECTOR_REGISTER "w"
#endif
#define OPAQUE(value) __asm__ volatile("" : "+r"(value))
#define OPAQUE_VECTOR(value) __asm__ volatile("" : "+" VECTOR_REGISTER(value))

// Writes all ones into every register that code may write, except sp, the frame pointer and the platform's own. A
// value that lives in a register across a switch, and is not declared so, does not survive this call on the other
// side.
INLINE void ruin_registers(void) {
#define EIGHT(M, p) M(p##0) M(p##1) M(p##2) M(p##3) M(p##4) M(p##5) M(p##6) M(p##7)
#define SIXTEEN(M, p) EIGHT(M, p) M(p##8) M(p##9) M(p##10) M(p##11) M(p##12) M(p##13) M(p##14) M(p##15)
#define UPPER(M, p)                                                                                                    \
  M(p##16) M(p##17) M(p##18) M(p##19) M(p##20) M(p##21) M(p##22) M(p##23) M(p##24) M(p##25) M(p##26) M(p##27)         \
  M(p##28) M(p##29) M(p##30) M(p##31)
#define NAMED(r) , #r
#if defined(__x86_64__)
#define ONES(r) "movq $-1, %%" #r "\n\t"
  __asm__ volatile(ONES(rax) ONES(rbx) ONES(rcx) ONES(rdx) ONES(rsi) ONES(rdi) ONES(r8) ONES(r9) ONES(r10) ONES(r11)
                       ONES(r12) ONES(r13) ONES(r14) ONES(r15)::
                       : "cc", "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
                         "r15");
#if defined(__AVX512F__)
#define ONES_VECTOR(n) "vpternlogd $255, %%zmm" #n ", %%zmm" #n ", %%zmm" #n "\n\t"
#define ONES_MASK(k) "kxnorw %%" #k ", %%" #k ", %%" #k "\n\t"
  __asm__ volatile(SIXTEEN(ONES_VECTOR, ) UPPER(ONES_VECTOR, ) EIGHT(ONES_MASK, k)::
                       : "cc" SIXTEEN(NAMED, xmm) UPPER(NAMED, xmm) EIGHT(NAMED, k));
#elif defined(__AVX2__)
#define ONES_VECTOR(n) "vpcmpeqd %%ymm" #n ", %%ymm" #n ", %%ymm" #n "\n\t"
  __asm__ volatile(SIXTEEN(ONES_VECTOR, )::: "cc" SIXTEEN(NAMED, xmm));
#else
#define ONES_VECTOR(n) "pcmpeqd %%xmm" #n ", %%xmm" #n "\n\t"
  __asm__ volatile(SIXTEEN(ONES_VECTOR, )::: "cc" SIXTEEN(NAMED, xmm));
#endif
#elif defined(__aarch64__)
#define ONES(r) "mov " #r ", #-1\n\t"
#define ONES_VECTOR(r) "movi " #r ".16b, #255\n\t"
  __asm__ volatile(
      SIXTEEN(ONES, x) ONES(x16) ONES(x17) ONES(x18) ONES(x19) ONES(x20) ONES(x21) ONES(x22) ONES(x23) ONES(x24)
          ONES(x25) ONES(x26) ONES(x27) ONES(x28) ONES(x30)::
          : "cc" SIXTEEN(NAMED, x), "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27",
            "x28", "x30");
#if defined(__ARM_FEATURE_SVE)
#undef ONES_VECTOR
#define ONES_VECTOR(n) "dup z" #n ".b, #-1\n\t"
#define ONES_PREDICATE(r) "ptrue " #r ".b\n\t"
  __asm__ volatile(SIXTEEN(ONES_VECTOR, ) UPPER(ONES_VECTOR, ) SIXTEEN(ONES_PREDICATE, p)::
                       : "cc" SIXTEEN(NAMED, v) UPPER(NAMED, v) SIXTEEN(NAMED, p));
#else
  __asm__ volatile(SIXTEEN(ONES_VECTOR, v) UPPER(ONES_VECTOR, v)::: "cc" SIXTEEN(NAMED, v) UPPER(NAMED, v));
#endif
#else
#error "Say here how this architecture's registers are overwritten."
#endif
}
