// SPDX-License-Identifier: Apache-2.0

#include "unbegun_bodies.h"

static __thread void *bodies;

void **coroutine_thread_unbegun_bodies(void) { return &bodies; }
