// SPDX-License-Identifier: Apache-2.0

// Steps from frame to frame by frame pointers, where libunwind has shown that to be right.
//
// A step of libunwind's takes 0.6 us or more, most of it for system calls: it blocks all signals while it looks into
// its cache; in another process, 70 us. But most frames keep a frame pointer, so that the frame's caller can be read
// from two words. Which frames do is learnt from libunwind, once for each address, by trying. If its step leads where
// the frame pointer leads, then it does so whenever the program is at that address, since the call frame information of
// an address is always the same. At an address where a stack ends, it always does, too.
//
// For the two that walk stacks, this process's and another's: each says how a word of a stack is read.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Where a walk stands: what it needs to know of a frame's registers.
struct frame_registers {
  uintptr_t pc, sp, fp, base;
};

struct plain_frame {
  uintptr_t pc;    // 0: an empty slot
  uintptr_t size;  // from where fp points to the sp of the caller; 0: there is none, the stack ends here
};

enum {
  plain_frames_bits = 13,
  plain_frames_slots = 1 << plain_frames_bits,
  plain_frames_most = plain_frames_slots / 2
};

struct plain_frames {
  size_t count;
  struct plain_frame slots[plain_frames_slots];  // open addressing
};

// Reads a word of a stack. False if it can't be read.
typedef bool (*plain_frames_reader)(void *context, uintptr_t address, uintptr_t *word);

static inline struct plain_frame *plain_frames_slot(struct plain_frames *frames, uintptr_t pc) {
  size_t index = (size_t)((uint64_t)pc * 0x9e3779b97f4a7c15u >> (64 - plain_frames_bits));
  while (frames->slots[index].pc != 0 && frames->slots[index].pc != pc) index = (index + 1) % plain_frames_slots;
  return &frames->slots[index];
}

static inline void plain_frames_learn(struct plain_frames *frames, uintptr_t pc, uintptr_t size) {
  if (frames->count >= plain_frames_most) return;
  struct plain_frame *frame = plain_frames_slot(frames, pc);
  if (frame->pc == 0) frames->count++;
  *frame = (struct plain_frame){pc, size};
}

// The caller of a frame that is known to keep a frame pointer, or to have no caller: pc is 0 then. False where that is
// not known, and libunwind has to find it.
static inline __attribute__((always_inline)) bool plain_frames_step(struct plain_frames *frames, struct frame_registers *regs,
                                                                    uintptr_t top, plain_frames_reader read,
                                                                    void *context) {
  const struct plain_frame *frame = plain_frames_slot(frames, regs->pc);
  if (frame->pc != 0 && frame->size == 0) {
    regs->pc = 0;
    return true;
  }
  if (frame->pc == 0 || regs->fp < regs->sp || regs->fp > top - 2 * sizeof(uintptr_t) ||
      regs->fp % sizeof(uintptr_t) != 0)
    return false;
  uintptr_t pc, fp;
  if (!read(context, regs->fp + sizeof(uintptr_t), &pc) || !read(context, regs->fp, &fp)) return false;
  *regs = (struct frame_registers){pc, regs->fp + frame->size, fp, 0};
  return true;
}

// Learns from a step of libunwind's, from `here` to `caller`. Whether the walk goes on there.
static inline __attribute__((always_inline)) bool plain_frames_stepped(struct plain_frames *frames,
                                                                       const struct frame_registers *here,
                                                                       const struct frame_registers *caller, bool has_caller,
                                                                       uintptr_t top, plain_frames_reader read,
                                                                       void *context) {
  if (!has_caller || caller->pc == 0 || caller->sp < here->sp || caller->sp >= top) {
    plain_frames_learn(frames, here->pc, 0);
    return false;
  }
  bool is_inside = here->sp <= here->fp && here->fp < caller->sp;
  uintptr_t pc, fp;
  if (is_inside && here->fp % sizeof(uintptr_t) == 0 && read(context, here->fp + sizeof(uintptr_t), &pc) &&
      read(context, here->fp, &fp) && pc == caller->pc && fp == caller->fp)
    plain_frames_learn(frames, here->pc, caller->sp - here->fp);
  return true;
}
