// The toy backend's switch: a plain function, which stores what a function has to preserve in a record of nine words.
// The numbers compared below are those of `enum toy_defect` in toy_context.h.

#if defined(__x86_64__)

  .text
  .globl toy_context_switch
  .type toy_context_switch, @function
toy_context_switch:                 // rdi: from, rsi: to, rdx: word; returns rax: word, rdx: the context that was left
  .cfi_startproc
  movq (%rsp), %rax                 // where this side goes on: behind the call
  leaq 8(%rsp), %rcx                // its stack there
  movq %rbp, 0(%rdi)
  movq %rax, 8(%rdi)
  movq %rcx, 16(%rdi)
  movq %rbx, 24(%rdi)
  movq %r12, 32(%rdi)
  movq %r13, 40(%rdi)
  movq %r14, 48(%rdi)
  movq %r15, 56(%rdi)
  stmxcsr 64(%rdi)                  // (read back by the last defect alone)
  movq 0(%rsi), %rbp                // the other side's
  movq 24(%rsi), %rbx
  movq 32(%rsi), %r12
  movq 40(%rsi), %r13
  movq 48(%rsi), %r14
  movq 56(%rsi), %r15
  movq 16(%rsi), %rsp
  movq %rdx, %rax
  movq %rdi, %rdx
  movl toy_context_defect(%rip), %ecx
  cmpl $1, %ecx                     // toy_loses_a_register
  jne 1f
  xorl %r15d, %r15d
1:
  cmpl $3, %ecx                     // toy_truncates_the_word
  jne 1f
  movl %eax, %eax
1:
  cmpl $4, %ecx                     // toy_tells_the_wrong_departed
  jne 1f
  movq %rsi, %rdx
1:
  cmpl $9, %ecx                     // toy_keeps_the_rounding_mode
  jne 1f
  ldmxcsr 64(%rsi)
1:
  jmpq *8(%rsi)
  .cfi_endproc
  .size toy_context_switch, .-toy_context_switch

// Where a context begins: the word is in rax, the entry function lies on the stack. The first byte is never run. An
// unwinder looks up the byte before an address, which so still belongs to this function.
  .globl toy_context_trampoline
  .type toy_context_trampoline, @function
toy_context_trampoline:
  .cfi_startproc
  .cfi_undefined rip                // the end of the stack
  nop
  movq %rax, %rdi
  callq *(%rsp)
  cmpl $11, toy_context_defect(%rip)  // toy_lets_the_entry_return
  jne 1f
  xorl %edi, %edi
  callq _exit@PLT
1:
  ud2
  .cfi_endproc
  .size toy_context_trampoline, .-toy_context_trampoline

// The same without an end: an unwinder takes what lies above the stack for its caller's frame.
  .globl toy_context_endless_trampoline
  .type toy_context_endless_trampoline, @function
toy_context_endless_trampoline:
  .cfi_startproc
  .cfi_def_cfa_offset 16
  nop
  movq %rax, %rdi
  callq *(%rsp)
  ud2
  .cfi_endproc
  .size toy_context_endless_trampoline, .-toy_context_endless_trampoline

#endif

  .section .note.GNU-stack, "", %progbits
