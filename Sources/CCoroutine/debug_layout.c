#include "debug_layout.h"

struct coroutine_debug_layout coroutine_debug_layout __attribute__((used)) = {
    .magic = COROUTINE_DEBUG_MAGIC,
    .version = coroutine_debug_version,
    .size = sizeof(struct coroutine_debug_layout),
};

// As debug_layout.h says. The assembler writes it, since C has no word for a difference of addresses in two sections.
__asm__(
    ".pushsection .note.coroutine, \"a\", @note\n\t"
    ".balign 4\n\t"
    ".long 10\n\t"  // the owner's length, with its zero
    ".long 8\n\t"
    ".long 1\n\t"
    ".asciz \"Coroutine\"\n\t"
    ".balign 4\n\t"
    ".quad coroutine_debug_layout - .\n\t"
    ".popsection");
