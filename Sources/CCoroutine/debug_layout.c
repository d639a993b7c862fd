// SPDX-License-Identifier: Apache-2.0

#include "debug_layout.h"

// By this name it can't be another image's, to which the note's number could not lead: a shared library would not link.
struct coroutine_debug_layout coroutine_debug_layout_here __attribute__((used, visibility("hidden"))) = {
    .magic = COROUTINE_DEBUG_MAGIC,
    .version = coroutine_debug_version,
    .size = sizeof(struct coroutine_debug_layout),
};

extern struct coroutine_debug_layout coroutine_debug_layout __attribute__((alias("coroutine_debug_layout_here")));

// As debug_layout.h says. The assembler writes it, since C has no word for a difference of addresses in two sections.
__asm__(
    ".pushsection .note.coroutine, \"a\", @note\n\t"
    ".balign 4\n\t"
    ".long 10\n\t"  // the owner's length, with its zero
    ".long 8\n\t"
    ".long 1\n\t"
    ".asciz \"Coroutine\"\n\t"
    ".balign 4\n\t"
    ".quad coroutine_debug_layout_here - .\n\t"
    ".popsection");
