// SPDX-License-Identifier: Apache-2.0

// Entry points of the Swift runtime that its language has no word for.
#pragma once

// Count one more reference, or two, to an object that no other thread knows of: without an atomic operation.
void coroutine_retain_unshared(void *object);
void coroutine_retain_unshared_twice(void *object);
