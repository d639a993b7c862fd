// SPDX-License-Identifier: Apache-2.0

#include "references.h"

#include <stdint.h>

// The Swift runtime's own.
void *swift_nonatomic_retain(void *object);
void *swift_nonatomic_retain_n(void *object, uint32_t count);

// Not inline: seen from Swift, the optimiser takes it for the atomic `swift_retain`.
void coroutine_retain_unshared(void *object) {
  swift_nonatomic_retain(object);
}

void coroutine_retain_unshared_twice(void *object) {
  swift_nonatomic_retain_n(object, 2);
}
