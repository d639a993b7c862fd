// An entry point of the Swift runtime that its language has no word for.
#pragma once

// Counts one more reference to an object that no other thread knows of yet: without an atomic operation.
void coroutine_retain_unshared(void *object);
