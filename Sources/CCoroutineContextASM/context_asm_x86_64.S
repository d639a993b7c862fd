// SPDX-License-Identifier: Apache-2.0

// The entry trampoline for x86-64: the first code of every context. A suspended new context holds
//
//     fp = the address of the resumer's struct context_asm
//     pc = context_asm_trampoline, behind its nop
//     sp = two words below the stack's top
//
// and the switch arrives with the first word in rdx. The stack then looks so, and stays so below the entry function:
//
//     top ->  +-----------------------------+  a multiple of 16
//             | (padding, for alignment)    |
//             +-----------------------------+
//             | the entry function          |  <- sp, a multiple of 16 as the ABI wants it at a call
//             +-----------------------------+
//             | return address (to ud2)     |  pushed by the call
//             +-----------------------------+
//             | the entry function's frame  |
//             |            ...              |
//
// How a stack is unwound past this frame: rbp still holds the address of the resumer's context (the entry function
// saves and restores it), and that context holds the resumer's registers while this one runs:
//
//     0(%rbp) = its rbp      8(%rbp) = its rip      16(%rbp) = its rsp
//
// While this context is suspended it has no resumer: 8(%rbp) is 0 then (the resumer destroyed the link after its switch
// returned), and an unwinder ends there. libunwind 1.6 does not always: its callers must look.
//
// An exception must not leave the entry function: the frames above are the resumer's, which may have a handler for it, and
// this stack would never be resumed. The personality ends the search here, so that the thrower terminates the process.

#if defined(__x86_64__) && defined(__linux__)

        .text
        // _Unwind_Reason_Code context_asm_personality(int version, _Unwind_Action actions, ...)
        .type   context_asm_personality, @function
        .p2align 4
        .cfi_startproc
context_asm_personality:
        movl    $8, %eax                // _URC_CONTINUE_UNWIND: a forced unwinding, as pthread_exit does, goes on
        movl    $3, %ecx                // _URC_FATAL_PHASE1_ERROR
        testl   $1, %esi                // _UA_SEARCH_PHASE: a handler is looked for
        cmovnzl %ecx, %eax              // then the search ends here
        retq
        .cfi_endproc
        .size   context_asm_personality, . - context_asm_personality

        .globl  context_asm_trampoline
        .type   context_asm_trampoline, @function
        .p2align 4
        .cfi_startproc
        .cfi_personality 0x1b, context_asm_personality  // DW_EH_PE_pcrel | DW_EH_PE_sdata4
        // The frame above lies on another stack, higher or lower: gdb only believes that of a signal frame.
        .cfi_signal_frame
        // CFA (the resumer's rsp) = *(rbp + 16): DW_CFA_def_cfa_expression, 3 bytes, DW_OP_breg6 16, DW_OP_deref
        .cfi_escape 0x0f, 0x03, 0x76, 0x10, 0x06
        // rip is saved at rbp + 8: DW_CFA_expression, register 16, 2 bytes, DW_OP_breg6 8
        .cfi_escape 0x10, 0x10, 0x02, 0x76, 0x08
        // rbp is saved at rbp + 0: DW_CFA_expression, register 6, 2 bytes, DW_OP_breg6 0
        .cfi_escape 0x10, 0x06, 0x02, 0x76, 0x00
        // The switch clobbers the others: the resumer's compiler spilled what it still needs.
        .cfi_undefined %rbx
        .cfi_undefined %r12
        .cfi_undefined %r13
        .cfi_undefined %r14
        .cfi_undefined %r15
context_asm_trampoline:
        nop                             // unwinders look up pc - 1: for a context that never ran it must be ours
        movq    %rdx, %rdi              // the first word becomes the entry function's argument
        callq   *(%rsp)                 // the entry function: `initialize` has left its address there
        ud2                             // the entry function must not return: there is nowhere to go
        .cfi_endproc
        .size   context_asm_trampoline, . - context_asm_trampoline

#endif

        .section .note.GNU-stack, "", @progbits   // without it the whole process's stacks become executable
