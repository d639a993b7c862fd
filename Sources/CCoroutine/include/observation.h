// SPDX-License-Identifier: Apache-2.0

// Which threads call observers at this moment: so that an observer can be removed while coroutines run.
//
// A call of observers counts itself in a slot of its thread's, then reads the list of them. The thread that has
// exchanged the list waits until each slot was empty once: from then on no thread uses the old one. Slots lie in
// cache lines of their own; threads share one only where there are many.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// The slot to be left by `coroutine_observation_leave`, or NULL if the calling thread is in such a call already: no
// observer sees what observers themselves cause.
void *coroutine_observation_enter(void);
void coroutine_observation_leave(void *slot);

// Whether an observer makes this call.
bool coroutine_observation_is_inside(void);

// Waits until every call that may have read the list before has come to its end.
void coroutine_observation_drain(void);
