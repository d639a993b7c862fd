#include "references.h"

// The Swift runtime's own.
void *swift_nonatomic_retain(void *object);

// Not inline: seen from Swift, the optimiser takes it for the atomic `swift_retain`.
void coroutine_retain_unshared(void *object) {
  swift_nonatomic_retain(object);
}
