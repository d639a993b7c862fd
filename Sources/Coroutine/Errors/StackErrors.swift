// SPDX-License-Identifier: Apache-2.0

// The error of a coroutine that gets no stack: for code that imports only this module.
@_exported public import enum Context.StackError
