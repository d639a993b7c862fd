// SPDX-License-Identifier: Apache-2.0

// Backtraces of stacks on which nothing runs, by libunwind: the one place that needs it.
//
// libunwind.so brings its own _Unwind_* functions, which take the place of libgcc's in the whole process. So only
// programs that ask for backtraces link it.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What the walks have learnt about the program's frames. One thread at a time uses it, and not for long: it is right as
// long as no library is unloaded.
struct unwinder;

struct unwinder *coroutine_unwinder_create(void);  // NULL without memory
void coroutine_unwinder_destroy(struct unwinder *unwinder);

// Walks the stack that ends at `top`, from a suspended context outwards, until it leaves that stack or knows no
// further.
//
// `registers` are the context's pc, sp, fp and base register (rbx, x19). The memory that they lead to is read without a
// check: the stack must stay suspended meanwhile, and its frames must have call frame information, as those of C and
// Swift do.
//
// Writes one address a frame, innermost first, at most `capacity`, and returns how many. Each is a return address: the
// instruction that it stands for lies *before* it. This holds for a context that never ran, too, whose first
// instruction is still to come: its address is one too high, so that it is not taken for the end of the function
// before.
//
// Allocates nothing. Takes the loader's lock, and libunwind's, at an address that is new to it.
size_t coroutine_unwinder_walk(struct unwinder *unwinder, const uintptr_t registers[4], uintptr_t top, uintptr_t *addresses,
                     size_t capacity);

// A copy of a stack that goes on: from where it stood up to its end, at most 256 KiB.
struct stack_copy {
  uintptr_t registers[4];  // where it stood
  uintptr_t bottom, top;   // the part that was copied
  char *words;             // where to
};

// Bytes of room that a copy needs in addition to the stack's own.
enum { stack_copy_margin = 4096, stack_copy_most = 256 << 10 };

// Copies the used part of the stack that ends at `top` into `room`. Returns how many bytes of `room` it took; 0 if
// there are too few. Takes no lock and allocates nothing. The stack's memory must stay mapped meanwhile.
size_t coroutine_stack_copy_make(struct stack_copy *copy, const uintptr_t registers[4], uintptr_t top, char *room, size_t size);

// As `coroutine_unwinder_walk`, but reads only a copy. What it writes is nonsense if the stack went on while it was
// copied: the caller has to look whether it has. `is_interrupted`: it was not suspended, but may have stood anywhere.
// Its first address is one too high then, as that of one that never ran.
size_t coroutine_unwinder_walk_copy(struct unwinder *unwinder, const struct stack_copy *copy, bool is_interrupted,
                          uintptr_t *addresses, size_t capacity);

// The registers of the function that calls, as long as it has not returned: to walk its stack.
struct unwinder_registers {
  uintptr_t pc, sp, fp, base;
};
struct unwinder_registers coroutine_unwinder_registers_here(void);

// Return addresses of the calling thread's frames, innermost first: for `coroutine_set_creation_backtracer`.
size_t coroutine_unwinder_creation_backtrace(uintptr_t *addresses, size_t capacity);
