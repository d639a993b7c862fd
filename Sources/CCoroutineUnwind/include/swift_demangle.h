// SPDX-License-Identifier: Apache-2.0

// A function of Swift's runtime library that is exported for debuggers, and in no header that comes with the toolchain.
#pragma once

#include <stddef.h>
#include <stdint.h>

// The full name of a mangled symbol: with modules, types and extensions, unlike those that the module Runtime gives.
// Allocates the result when `buffer` is NULL; returns NULL if the symbol is none of Swift's. `flags` must be 0.
char *swift_demangle(const char *mangled, size_t length, char *buffer, size_t *buffer_size, uint32_t flags);
