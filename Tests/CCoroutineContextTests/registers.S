// conformance_registers_over(values, found, body, argument): gives each preserved register one of `values`, calls
// `body(argument)`, and stores the registers' values after that at `found`. The caller's values are kept in the
// frame.

#if defined(__x86_64__)

  .text
  .globl conformance_registers_over
  .type conformance_registers_over, @function
conformance_registers_over:         // rdi: values, rsi: found, rdx: body, rcx: argument
  .cfi_startproc
  pushq %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  movq %rsp, %rbp
  .cfi_def_cfa_register %rbp
  pushq %rbx                        // the caller's, which this function has to preserve itself
  .cfi_offset %rbx, -24
  pushq %r12
  .cfi_offset %r12, -32
  pushq %r13
  .cfi_offset %r13, -40
  pushq %r14
  .cfi_offset %r14, -48
  pushq %r15
  .cfi_offset %r15, -56
  pushq %rsi                        // where to store; with it the stack is a multiple of 16 again
  movq 0(%rdi), %rbx
  movq 8(%rdi), %r12
  movq 16(%rdi), %r13
  movq 24(%rdi), %r14
  movq 32(%rdi), %r15
  movq %rcx, %rdi
  callq *%rdx
  popq %rsi
  movq %rbx, 0(%rsi)
  movq %r12, 8(%rsi)
  movq %r13, 16(%rsi)
  movq %r14, 24(%rsi)
  movq %r15, 32(%rsi)
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  .cfi_def_cfa %rsp, 8
  retq
  .cfi_endproc
  .size conformance_registers_over, .-conformance_registers_over

#elif defined(__aarch64__)

  .text
  .globl conformance_registers_over
  .type conformance_registers_over, %function
conformance_registers_over:         // x0: values, x1: found, x2: body, x3: argument
  .cfi_startproc
  stp x29, x30, [sp, #-112]!
  .cfi_def_cfa_offset 112
  .cfi_offset x29, -112
  .cfi_offset x30, -104
  mov x29, sp
  .cfi_def_cfa x29, 112
  stp x19, x20, [sp, #16]           // the caller's, which this function has to preserve itself
  .cfi_offset x19, -96
  .cfi_offset x20, -88
  stp x21, x22, [sp, #32]
  .cfi_offset x21, -80
  .cfi_offset x22, -72
  stp x23, x24, [sp, #48]
  .cfi_offset x23, -64
  .cfi_offset x24, -56
  stp x25, x26, [sp, #64]
  .cfi_offset x25, -48
  .cfi_offset x26, -40
  stp x27, x28, [sp, #80]
  .cfi_offset x27, -32
  .cfi_offset x28, -24
  str x1, [sp, #96]                 // where to store
  ldp x19, x20, [x0]
  ldp x21, x22, [x0, #16]
  ldp x23, x24, [x0, #32]
  ldp x25, x26, [x0, #48]
  ldp x27, x28, [x0, #64]
  mov x0, x3
  blr x2
  ldr x1, [sp, #96]
  stp x19, x20, [x1]
  stp x21, x22, [x1, #16]
  stp x23, x24, [x1, #32]
  stp x25, x26, [x1, #48]
  stp x27, x28, [x1, #64]
  ldp x19, x20, [sp, #16]
  ldp x21, x22, [sp, #32]
  ldp x23, x24, [sp, #48]
  ldp x25, x26, [sp, #64]
  ldp x27, x28, [sp, #80]
  ldp x29, x30, [sp], #112
  .cfi_def_cfa sp, 0
  ret
  .cfi_endproc
  .size conformance_registers_over, .-conformance_registers_over

#endif

  .section .note.GNU-stack, "", %progbits
