// What a program gets by linking CoroutineDebug alone.
#include "inspection.h"

__attribute__((constructor)) static void at_load(void) { coroutine_record_times(true); }
