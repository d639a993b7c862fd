// The error of a coroutine that gets no stack: for those who import nothing but this module.
@_exported public import enum Context.StackError
