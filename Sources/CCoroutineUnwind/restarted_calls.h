// SPDX-License-Identifier: Apache-2.0

// Which system calls a signal's handler may interrupt without any effect on the program.
#pragma once

#include "blocked_calls.h"

enum restart {
  // It would return early.
  RESTART_NONE,
  // The kernel restarts it (SA_RESTART).
  RESTART_BY_KERNEL,
  // The kernel does so only where no handler runs; the handler can do it instead: `coroutine_call_restart`.
  RESTART_BY_HANDLER,
};

enum restart coroutine_call_restarted(const struct coroutine_blocked_call *call);

// In the handler that has interrupted that call: if it has failed because of that, it is made again when the handler
// returns, a sleep for the time that is left. `context` is the handler's argument.
void coroutine_call_restart(const struct coroutine_blocked_call *call, void *context);
