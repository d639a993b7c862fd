// The error of a coroutine that gets no stack: for code that imports nothing but this module.
@_exported public import enum Context.StackError
