// Writes the forged core file to the standard output.

#include "forged_core.h"

#include <stdio.h>

int main(void) {
  struct forged core = forged_core();
  return fwrite(core.bytes, 1, core.count, stdout) == core.count ? 0 : 1;
}
