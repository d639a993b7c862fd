// SPDX-License-Identifier: Apache-2.0

// The entry trampoline for aarch64: the first code of every context. A suspended new context holds
//
//     fp = the address of the resumer's struct context_asm
//     pc = context_asm_trampoline, behind its nop
//     sp = two words below the stack's top
//
// and the switch arrives with the first word in x0. The stack then looks so, and stays so below the entry function:
//
//     top ->  +-----------------------------+  a multiple of 16
//             | (padding, for alignment)    |
//             +-----------------------------+
//             | the entry function          |  <- sp, a multiple of 16 as the hardware wants it
//             +-----------------------------+
//             | the entry function's frame  |  with the return address (to brk), which the call leaves in x30
//             |            ...              |
//
// How a stack is unwound past this frame: x29 still holds the address of the resumer's context (the entry function
// saves and restores it), and that context holds the resumer's registers while this one runs:
//
//     [x29] = its x29      [x29, #8] = its pc      [x29, #16] = its sp      [x29, #24] = its x19
//
// While this context is suspended it has no resumer: [x29, #8] is 0 then (the resumer destroyed the link after its
// switch returned), and every unwinder ends at address 0.
//
// An exception must not leave the entry function: the frames above are the resumer's, which may have a handler for it, and
// this stack would never be resumed. The personality ends the search here, so that the thrower terminates the process.

#if defined(__aarch64__) && defined(__linux__)

        .text
        // _Unwind_Reason_Code context_asm_personality(int version, _Unwind_Action actions, ...)
        .type   context_asm_personality, %function
        .p2align 4
        .cfi_startproc
context_asm_personality:
        hint    #34                     // bti c: a landing pad for the unwinder's call
        mov     w0, #8                  // _URC_CONTINUE_UNWIND: a forced unwinding, as pthread_exit does, goes on
        mov     w2, #3                  // _URC_FATAL_PHASE1_ERROR
        tst     w1, #1                  // _UA_SEARCH_PHASE
        csel    w0, w2, w0, ne
        ret
        .cfi_endproc
        .size   context_asm_personality, . - context_asm_personality

        .globl  context_asm_trampoline
        .type   context_asm_trampoline, %function
        .p2align 4
        .cfi_startproc
        .cfi_personality 0x1b, context_asm_personality  // DW_EH_PE_pcrel | DW_EH_PE_sdata4
        // The frame above lies on another stack, higher or lower: gdb only believes that of a signal frame.
        .cfi_signal_frame
        // CFA (the resumer's sp) = *(x29 + 16): DW_CFA_def_cfa_expression, 3 bytes, DW_OP_breg29 16, DW_OP_deref
        .cfi_escape 0x0f, 0x03, 0x8d, 0x10, 0x06
        // pc is saved at x29 + 8: DW_CFA_expression, register 30 (the return address), 2 bytes, DW_OP_breg29 8. It is
        // not signed: where it is, DW_CFA_AARCH64_negate_ra_state says so.
        .cfi_escape 0x10, 0x1e, 0x02, 0x8d, 0x08
        // x29 is saved at x29 + 0: DW_CFA_expression, register 29, 2 bytes, DW_OP_breg29 0
        .cfi_escape 0x10, 0x1d, 0x02, 0x8d, 0x00
        // x19 is saved at x29 + 24: DW_CFA_expression, register 19, 2 bytes, DW_OP_breg29 24
        .cfi_escape 0x10, 0x13, 0x02, 0x8d, 0x18
        // The switch clobbers the others: the resumer's compiler spilled what it still needs.
        .cfi_undefined x20
        .cfi_undefined x21
        .cfi_undefined x22
        .cfi_undefined x23
        .cfi_undefined x24
        .cfi_undefined x25
        .cfi_undefined x26
        .cfi_undefined x27
        .cfi_undefined x28
        .cfi_undefined d8
        .cfi_undefined d9
        .cfi_undefined d10
        .cfi_undefined d11
        .cfi_undefined d12
        .cfi_undefined d13
        .cfi_undefined d14
        .cfi_undefined d15
context_asm_trampoline:
        nop                             // unwinders look up pc - 1: for a context that never ran it must be ours
        hint    #36                     // bti j: a landing pad for the switch's branch
        ldr     x16, [sp]
        blr     x16                     // the first word lies in x0 already, as the entry function's argument
        brk     #1                      // the entry function must not return: there is nowhere to go
        .cfi_endproc
        .size   context_asm_trampoline, . - context_asm_trampoline

        // All code that is reached indirectly starts with a landing pad, and no return address is stored unsigned.
        // Said unconditionally: a linker drops the property from the whole program where one file does not have it.
        // (GCS, bit 2, is left out: contexts do not exchange the guarded control stack.)
        .section .note.gnu.property, "a", %note
        .p2align 3
        .word   4                       // length of the name
        .word   16                      // length of what follows the name
        .word   5                       // NT_GNU_PROPERTY_TYPE_0
        .asciz  "GNU"
        .word   0xc0000000              // GNU_PROPERTY_AARCH64_FEATURE_1_AND
        .word   4                       // length of its value
        .word   3                       // BTI (bit 0), PAC (bit 1)
        .word   0                       // padding to 8 bytes

#endif

        .section .note.GNU-stack, "", %progbits   // without it the whole process's stacks become executable
