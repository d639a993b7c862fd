// The conformance tests of the C layer: one program for every backend, architecture, compiler and optimisation level.
// scripts/test-assembly.sh builds and runs it in all of them. This file has the harness, and tests what a switch
// does.

#define _GNU_SOURCE 1
#include "context_test.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <unwind.h>

#if defined(__ARM_FEATURE_BTI_DEFAULT)
#include <link.h>
#include <sys/auxv.h>
#endif

enum { STACK = 64 * 1024 };

// MARK: Words

static struct coroutine echo;

static void echo_entry(uintptr_t word) {
  for (;;) word = suspend(&echo, word ^ UINTPTR_MAX);
}

static void words_travel_both_ways_and_the_first_reaches_the_entry_function(void) {
  coroutine_create(&echo, STACK, echo_entry);
  for (uintptr_t word = 1; word != 0; word <<= 1) CHECK(resume(&echo, word) == (word ^ UINTPTR_MAX));
  coroutine_free(&echo);
}

// MARK: Alignment

typedef double vector __attribute__((vector_size(16)));
static struct coroutine aligned;

static void aligned_entry(uintptr_t top) {
  volatile vector local = {1, 2};  // compilers store it with an instruction that faults on a wrong stack
  CHECK((uintptr_t)&local % 16 == 0);
  CHECK(local[0] + local[1] == 3);
  CHECK(top - (uintptr_t)__builtin_frame_address(0) < 1024);
  finish(&aligned, (uintptr_t)__builtin_frame_address(0) % 16);
}

static void the_stack_is_aligned_at_entry_and_begins_at_its_top(void) {
  coroutine_create(&aligned, STACK, aligned_entry);
  CHECK(resume(&aligned, (uintptr_t)aligned.stack.base + aligned.stack.size) == 0);
  coroutine_free(&aligned);
}

// MARK: Many contexts

enum { WALKERS = 100, STEPS = 100 * 1000 };

struct walk {
  uint64_t whole;
  double real;
};
struct walker {
  struct coroutine coroutine;
  struct walk expected;
};

INLINE uint64_t walk_step(struct walk *walk, uint64_t word) {
  walk->whole = walk->whole * 6364136223846793005u + word;
  walk->real = walk->real * 0.5 + (double)(walk->whole >> 40);
  return walk->whole ^ (uint64_t)walk->real;
}

static void walker_entry(uintptr_t word) {
  struct walker *self = (struct walker *)word;
  struct walk walk = {word, 0};
  word = suspend(&self->coroutine, 0);
  for (;;) word = suspend(&self->coroutine, walk_step(&walk, word));
}

static void a_hundred_contexts_resumed_at_random_keep_their_state(void) {
  struct walker *walkers = calloc(WALKERS, sizeof *walkers);
  for (int i = 0; i < WALKERS; i++) {
    coroutine_create(&walkers[i].coroutine, STACK, walker_entry);
    walkers[i].expected.whole = (uintptr_t)&walkers[i];
    resume(&walkers[i].coroutine, (uintptr_t)&walkers[i]);
  }
  uint32_t random = 1;
  int wrong = 0;
  for (int step = 0; step < STEPS; step++) {
    random = random * 1664525u + 1013904223u;
    struct walker *walker = &walkers[(random >> 16) % WALKERS];
    if (resume(&walker->coroutine, random) != walk_step(&walker->expected, random)) wrong++;
  }
  CHECK(wrong == 0);
  for (int i = 0; i < WALKERS; i++) coroutine_free(&walkers[i].coroutine);
  free(walkers);
}

// MARK: Depth

enum { DEPTH = 10 * 1000 };
static struct coroutine diver;

static NOINLINE uintptr_t dive(uintptr_t depth) {
  volatile uintptr_t marks[4] = {depth, depth + 1, depth + 2, depth + 3};
  uintptr_t below = depth == 0 ? 0 : dive(depth - 1);
  if (depth % 100 == 0) CHECK(suspend(&diver, depth) == depth);
  return below + (marks[0] == depth) + (marks[3] == depth + 3);
}

static void diver_entry(uintptr_t depth) { finish(&diver, dive(depth)); }

static void a_switch_from_deep_inside_a_recursion_comes_back_there(void) {
  coroutine_create(&diver, 4 * 1024 * 1024, diver_entry);
  uintptr_t word = resume(&diver, DEPTH);
  for (uintptr_t depth = 0; depth <= DEPTH; depth += 100) {
    CHECK(word == depth);
    word = resume(&diver, depth);
  }
  CHECK(word == 2 * (DEPTH + 1));
  coroutine_free(&diver);
}

// MARK: Inside a callback of C

enum { ELEMENTS = 500, SORTED = 1 };
struct sorter {
  struct coroutine coroutine;
  int numbers[ELEMENTS];
};
static struct sorter *sorting;

static int compare_and_suspend(const void *a, const void *b) {
  struct sorter *self = sorting;
  int x = *(const int *)a, y = *(const int *)b;
  CHECK(suspend(&self->coroutine, !SORTED) == 7);
  return (x > y) - (x < y);
}

static void sorter_entry(uintptr_t word) {
  struct sorter *self = (struct sorter *)word;
  qsort(self->numbers, ELEMENTS, sizeof(int), compare_and_suspend);
  finish(&self->coroutine, SORTED);
}

static void two_sorts_suspended_in_every_comparison_interleave(void) {
  static struct sorter sorters[2];
  uintptr_t sorted[2] = {0, 0}, words[2] = {(uintptr_t)&sorters[0], (uintptr_t)&sorters[1]};
  for (int s = 0; s < 2; s++) {
    for (int i = 0; i < ELEMENTS; i++) sorters[s].numbers[i] = (i + s) * 7919 % 1009;
    coroutine_create(&sorters[s].coroutine, STACK, sorter_entry);
  }
  for (int s = 0; !sorted[0] || !sorted[1]; s = !s) {
    if (sorted[s]) continue;
    sorting = &sorters[s];
    sorted[s] = resume(&sorters[s].coroutine, words[s]) == SORTED;
    words[s] = 7;
  }
  for (int s = 0; s < 2; s++) {
    for (int i = 1; i < ELEMENTS; i++) CHECK(sorters[s].numbers[i - 1] <= sorters[s].numbers[i]);
    coroutine_free(&sorters[s].coroutine);
  }
}

// MARK: Begin and end

static struct coroutine first, second;

static NOINLINE void suspend_in_a_function(uintptr_t word) {
  CHECK(suspend(&first, word) == 9);
  OPAQUE(word);  // no tail call: the frame stays
}

static void first_entry(uintptr_t word) {
  suspend_in_a_function(word);
  finish(&first, 0);
}

static void second_entry(uintptr_t word) {
  word = suspend(&second, word + 1);
  finish(&second, word + 2);
}

static void a_context_that_never_ran_needs_no_more_than_destroying(void) {
  struct stack stack = stack_create(STACK);
  context unused, resumer;
  uintptr_t registers[4];
  for (int i = 0; i < 3; i++) {
    initialize(&unused, stack, &resumer, first_entry);
    BACKEND(_destroy)(&unused);
    CHECK(!BACKEND(_registers)(&unused, registers));
  }
  stack_free(stack);
}

static void a_stack_is_reused_after_its_suspended_context_is_destroyed(void) {
  coroutine_create(&first, STACK, first_entry);
  CHECK(resume(&first, 5) == 5);
  BACKEND(_destroy)(&first.own);

  second.stack = first.stack;
  memset(second.stack.base, 0xa5, second.stack.size);
  initialize(&second.own, second.stack, &second.resumer, second_entry);
  BACKEND(_destroy)(&second.resumer);
  CHECK(resume(&second, 10) == 11);
  CHECK(resume(&second, 20) == 22);
  coroutine_free(&second);
}

static void registers_are_those_of_the_suspended_side_and_none_once_destroyed(void) {
  uintptr_t registers[4] = {1, 2, 3, 4};
  coroutine_create(&first, STACK, first_entry);
  CHECK(!BACKEND(_registers)(&first.resumer, registers));
  CHECK(registers[0] == 1 && registers[1] == 2 && registers[2] == 3 && registers[3] == 4);

  // A new context: its registers are those of its beginning.
  CHECK(BACKEND(_registers)(&first.own, registers));
  CHECK(stack_contains(first.stack, registers[1]));
#if defined(CONTEXT_TEST_ASM)
  CHECK(_Unwind_FindEnclosingFunction((void *)registers[0]) == TRAMPOLINE);
  CHECK(registers[2] == (uintptr_t)&first.resumer);
  CHECK(registers[3] == 0);
#endif

  // A suspended one: it stands in the function that switched, a little deeper.
  uintptr_t top = registers[1];
  CHECK(resume(&first, 5) == 5);
  CHECK(BACKEND(_registers)(&first.own, registers));
  CHECK(stack_contains(first.stack, registers[1]));
  CHECK(registers[1] < top && registers[1] % 16 == 0);
  CHECK(_Unwind_FindEnclosingFunction((void *)registers[0]) == (void *)suspend_in_a_function);

  // Its resumer's context is destroyed, as nothing waits there.
  CHECK(!BACKEND(_registers)(&first.resumer, registers));

  CHECK(resume(&first, 9) == 0);
  BACKEND(_destroy)(&first.own);
  CHECK(!BACKEND(_registers)(&first.own, registers));
  stack_free(first.stack);
}

// MARK: Symmetric transfer

enum { ROUNDS = 1000 };
static context ring_main, ring[3];

// Passes the word on, and checks which context passed it.
INLINE uintptr_t pass_on(int self, uintptr_t word) {
  arrival back = BACKEND(_switch)(&ring[self], &ring[(self + 1) % 3], word * 3 + (uintptr_t)self);
  CHECK(back.departed == &ring[(self + 2) % 3]);
  return back.word;
}

static void ring_a(uintptr_t word) {
  for (int i = 0; i < ROUNDS; i++) word = pass_on(0, word);
  BACKEND(_switch)(&ring[0], &ring_main, word);
  __builtin_trap();
}
static void ring_b(uintptr_t word) {
  for (;;) word = pass_on(1, word);
}
static void ring_c(uintptr_t word) {
  for (;;) word = pass_on(2, word);
}

static void three_contexts_pass_a_word_round_without_going_back_to_their_creator(void) {
  void (*const entries[3])(uintptr_t) = {ring_a, ring_b, ring_c};
  struct stack stacks[3];
  for (int i = 0; i < 3; i++) {
    stacks[i] = stack_create(STACK);
    initialize(&ring[i], stacks[i], &ring_main, entries[i]);
  }
  uintptr_t expected = 1;
  for (int i = 0; i < ROUNDS; i++) expected = ((expected * 3 + 0) * 3 + 1) * 3 + 2;
  arrival last = BACKEND(_switch)(&ring_main, &ring[0], 1);
  CHECK(last.word == expected);
  CHECK(last.departed == &ring[0]);
  for (int i = 0; i < 3; i++) {
    BACKEND(_destroy)(&ring[i]);
    stack_free(stacks[i]);
  }
}

// MARK: Another thread

static struct coroutine migrant;

static void migrant_entry(uintptr_t word) {
  double kept = (double)word;
  for (;;) {
    word = suspend(&migrant, (uintptr_t)kept);
    kept += (double)word;
  }
}

static void *resume_migrant(void *word) { return (void *)resume(&migrant, (uintptr_t)word); }

static void a_context_goes_on_in_another_thread(void) {
  coroutine_create(&migrant, STACK, migrant_entry);
  CHECK(resume(&migrant, 100) == 100);
  for (uintptr_t i = 1; i <= 20; i++) {
    pthread_t thread;
    void *answer = 0;
    CHECK(pthread_create(&thread, 0, resume_migrant, (void *)1) == 0);
    CHECK(pthread_join(thread, &answer) == 0);
    CHECK((uintptr_t)answer == 100 + 2 * i - 1);
    CHECK(resume(&migrant, 1) == 100 + 2 * i);
  }
  coroutine_free(&migrant);
}

const struct test switching_tests[] = {
    {"words travel both ways, the first to the entry function",
     words_travel_both_ways_and_the_first_reaches_the_entry_function},
    {"the stack is aligned at entry and begins at its top", the_stack_is_aligned_at_entry_and_begins_at_its_top},
    {"a hundred contexts resumed at random keep their state", a_hundred_contexts_resumed_at_random_keep_their_state},
    {"a switch from deep inside a recursion comes back there", a_switch_from_deep_inside_a_recursion_comes_back_there},
    {"two sorts suspended in every comparison interleave", two_sorts_suspended_in_every_comparison_interleave},
    {"a context that never ran needs no more than destroying", a_context_that_never_ran_needs_no_more_than_destroying},
    {"a stack is reused after its suspended context is destroyed",
     a_stack_is_reused_after_its_suspended_context_is_destroyed},
    {"registers are those of the suspended side, none once destroyed",
     registers_are_those_of_the_suspended_side_and_none_once_destroyed},
    {"three contexts pass a word round", three_contexts_pass_a_word_round_without_going_back_to_their_creator},
    {"a context goes on in another thread", a_context_goes_on_in_another_thread},
    {0, 0},
};

// MARK: Harness

static int failures;

void check_failed(const char *file, int line, const char *condition) {
  failures++;
  fprintf(stderr, "%s:%d: failed: %s\n", file, line, condition);
}

struct stack stack_create(size_t size) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char *base = mmap(0, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED || mprotect(base, page, PROT_NONE) != 0) {
    perror("no memory for a stack");
    _exit(2);
  }
  return (struct stack){base + page, size};
}

void stack_free(struct stack stack) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  munmap(stack.base - page, stack.size + page);
}

static const char *volatile running;

static void say_what_crashed(int signal) {
  const char *const parts[] = {"crashed: ", running, "\n"};
  for (int i = 0; i < 3; i++)
    if (write(STDERR_FILENO, parts[i], strlen(parts[i])) < 0) break;
  raise(signal);  // once more, now without a handler
}

// The handler has a stack of its own: a wrong switch may leave none.
static void catch_crashes(void) {
  static char memory[64 * 1024];
  stack_t stack = {.ss_sp = memory, .ss_size = sizeof memory};
  struct sigaction action = {.sa_handler = say_what_crashed, .sa_flags = (int)(SA_ONSTACK | SA_RESETHAND)};
  const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE};
  sigaltstack(&stack, 0);
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) sigaction(signals[i], &action, 0);
}

#if defined(__ARM_FEATURE_BTI_DEFAULT)
// This file is compiled with landing pads. The C library's start files are compiled without, which usually prevents
// that landing pads are enforced. This function has them enforced in the program's own code: from here on a branch to
// anything else is an illegal instruction.
static int enforce_landing_pads(struct dl_phdr_info *program, size_t size, void *unused) {
  (void)size, (void)unused;
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  for (int i = 0; i < program->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &program->dlpi_phdr[i];
    if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X)) continue;
    uintptr_t begin = (program->dlpi_addr + segment->p_vaddr) & ~(page - 1);
    uintptr_t end = program->dlpi_addr + segment->p_vaddr + segment->p_memsz;
    CHECK(mprotect((void *)begin, end - begin, PROT_READ | PROT_EXEC | PROT_BTI) == 0);
  }
  return 1;  // the first object is the program itself
}
#endif

int main(void) {
  catch_crashes();
#if defined(__ARM_FEATURE_BTI_DEFAULT)
  if (getauxval(AT_HWCAP2) & HWCAP2_BTI) dl_iterate_phdr(enforce_landing_pads, 0);
#endif
  const struct test *const suites[] = {switching_tests, register_tests, unwinding_tests};
  int passed = 0, failed = 0;
  for (size_t s = 0; s < sizeof suites / sizeof *suites; s++) {
    for (const struct test *test = suites[s]; test->name; test++) {
      int before = failures;
      running = test->name;
      test->run();
      if (failures == before) {
        passed++;
      } else {
        failed++;
        fprintf(stderr, "failed: %s\n", test->name);
      }
    }
  }
  printf("%d passed, %d failed\n", passed, failed);
  fflush(stdout);
  _exit(failures == 0 ? 0 : 1);  // no exit handlers: those of the start files have no landing pads
}
