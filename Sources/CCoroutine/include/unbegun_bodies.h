// SPDX-License-Identifier: Apache-2.0

// The bodies that wait to be released on a thread's own stack: see UnbegunBodies.swift.
#pragma once

// Where the calling thread has them. Only code on the thread's own stack uses it: that stays on the thread.
void **coroutine_thread_unbegun_bodies(void);
