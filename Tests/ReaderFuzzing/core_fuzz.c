// A fuzz target of libFuzzer's: the reader of core files gets one of any bytes, and then everything is asked that
// coroutine-dump asks of a core file.

#define _GNU_SOURCE 1
#include "memory_file.h"

#include "forged_core.h"
#include "target.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void ask(struct target *target) {
  uint8_t buffer[5000];
  uintptr_t addresses[64];
  size_t index = 0;
  for (uint64_t note; (note = coroutine_target_find_note(target, "Coroutine", 1, &index));)
    coroutine_target_read(target, note, buffer, 64);
  for (size_t i = 0; i < coroutine_target_image_count(target); i++) {
    const struct target_image *image = coroutine_target_image_at(target, i);
    coroutine_target_read(target, image->start - 100, buffer, sizeof buffer);
    coroutine_target_read(target, image->end - 100, buffer, sizeof buffer);
  }
  for (size_t i = 0; i < coroutine_target_thread_count(target); i++) {
    uintptr_t registers[4];
    if (!coroutine_target_thread_registers(target, i, registers)) continue;
    for (int is_interrupted = 0; is_interrupted < 2; is_interrupted++) {
      bool is_cut = false;
      coroutine_target_walk(target, registers, (registers[1] | 0xffff) + 1, is_interrupted, addresses, 64, &is_cut);
    }
    coroutine_target_stack_peak(target, registers[1] & ~(uint64_t)0xffff, (registers[1] | 0xffff) + 1);
  }
  coroutine_target_is_exhausted(target);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
  static struct memory_file core, executable;
  if (core.descriptor == 0) {
    core = memory_file_create("core");
    executable = memory_file_create("executable");
    struct forged image = forged_image();
    memory_file_fill(&executable, image.bytes, image.count);
    if (dup2(executable.descriptor, library_descriptor) < 0) abort();
  }
  memory_file_fill(&core, bytes, count);
  enum target_failure failure;
  uint64_t has = 0, wants = 0;
  struct target *target = coroutine_target_open_core(core.path, executable.path, &failure, &has, &wants);
  if (!target) return 0;
  ask(target);
  coroutine_target_resume(target);
  coroutine_target_close(target);
  return 0;
}
