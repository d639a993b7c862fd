#include "inspection.h"

uint32_t coroutine_inspection_flag = 0;
