// The assembly without Swift, by pkg-config: a context that counts up the word that travels.

#include <context_asm.h>
#include <stdio.h>

static struct context_asm here, there;
static char stack[65536] __attribute__((aligned(16)));

static void count(uintptr_t word) {
  for (;;) word = context_asm_switch(&there, &here, word + 1).word;
}

int main(void) {
  context_asm_initialize(&there, stack + sizeof stack, &here, count);
  uintptr_t word = 0;
  for (int round = 0; round < 3; round++) word = context_asm_switch(&here, &there, word).word;
  printf("%d\n", (int)word);
  return 0;
}
