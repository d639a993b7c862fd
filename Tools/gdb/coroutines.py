# SPDX-License-Identifier: Apache-2.0
#
# Coroutines in gdb, in a running process and in a core file:
#
#     (gdb) source Tools/gdb/coroutines.py
#     (gdb) coroutines               lists them
#     (gdb) coroutine 7 bt           where coroutine 7 is suspended; `coroutine bt 7` is the same
#     (gdb) coroutine all bt         where all of them are suspended
#     (gdb) coroutine select 7       from here on `bt`, `up`, `info locals` see coroutine 7, behind the thread's frame 0
#     (gdb) coroutine select 0       the thread again
#
# Nothing in the process is changed or called. `coroutine_debug_layout` describes the layout of the data: see
# debug_layout.h, whose names this file repeats. An ELF note leads to it, so the executable may be stripped.
#
# gdb 13 finds no lines in release builds of swiftc: remove the section `.debug_names` (objcopy -R .debug_names), or compile
# with -Xllvm -accel-tables=Disable.

import shutil
import struct
import subprocess
import unicodedata

import gdb
import gdb.unwinder

VERSION = 13
NO_WORD = (1 << 64) - 1

FIELDS = """
is_complete backend backend_code stack_pools thread_pools unstarted_rows row_next row_count row_slots
context_size context_is_known context_live context_indirect context_pc context_sp context_fp context_base block_size
block_color block_serial block_state block_owner state_generator state_ready state_running state_suspended
pool_newest_arena arena_stack_size arena_gap arena_base arena_slots arena_older arena_live core_id core_name core_block
core_creator core_scope core_state core_state_ready core_home core_next_ready core_since core_extras extras_visiting
extras_creation extras_cancelled core_operation core_subject core_subject_tag core_deadline subject_object subject_cases
scope_name scope_owner scheduler_mask scheduler_pool scheduler_queue scheduler_other scheduler_shared_pool scheduler_none
thread_pool_core queue_label other_object threads_count threads_host threads_host_own threads_global_first threads_workers
worker_slot worker_starting worker_line_first worker_ring_head worker_ring_tail worker_ring_slots worker_ring_capacity
select_targets select_count target_stride target_operation target_tag target_waitable target_timeout target_deadline
""".split()

# The numbers of Swift's `WaitOperation`, and of the classes in `WaitableClasses`.
OPERATIONS = """send receive join suspension sleep promise select lock async permit condition barrier group
once read write accept connect blocking""".split()
KINDS = [
    "coroutine", "channel", "promise", "several ends", "generator", "scope", "a callback", "barrier", "wait group", "mutex",
    "read-write lock", "once", "semaphore", "condition", "actor", "an actor's answer", "descriptor",
    "broadcast"]
KIND_FIELDS = 6


# Memory


def read(address, count):
    return bytes(gdb.selected_inferior().read_memory(address, count))


def word(address):
    return struct.unpack("<Q", read(address, 8))[0]


def word32(address):
    return struct.unpack("<I", read(address, 4))[0]


def string(address):
    """A Swift string: two words. They hold up to 15 bytes; of a longer string the second one has the address."""
    first, second = word(address), word(address + 8)
    if second >> 61 & 1:
        return read(address, second >> 56 & 15).decode("utf-8", "replace")
    count = min(first & 0xFFFFFFFFFFFF, 1 << 16)
    return read((second & 0x0FFFFFFFFFFFFFFF) + 32, count).decode("utf-8", "replace") if count else ""


def plain(text):
    """The text without line ends, terminal commands and marks of text direction: the names come from the program."""
    return "".join(
        "\\u{%x}" % ord(c) if unicodedata.category(c) in ("Cc", "Zl", "Zp") or ord(c) in TURNS else c for c in text)


TURNS = {0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}


# The layout


class Layout:
    SIZE = 16 + 8 * len(FIELDS) + 8 * len(KINDS) * (1 + KIND_FIELDS)

    def __init__(self, address):
        names = FIELDS
        self.__dict__.update(zip(names, struct.unpack("<%dQ" % len(names), read(address + 16, 8 * len(names)))))
        kinds = address + 16 + 8 * len(names)
        self.kinds = {}
        for kind in range(len(KINDS)):
            descriptor, name = struct.unpack("<QQ", read(kinds + kind * 8 * (1 + KIND_FIELDS), 16))
            self.kinds[descriptor] = (kind, name)


def images():
    """The program headers of the executable and of the libraries: (address, count, what to add to addresses)."""
    if not gdb.selected_inferior().threads():
        raise gdb.GdbError("There is no process, and no core file, to look at: start the program (run), or attach to it.")
    auxiliary = {}
    for line in gdb.execute("info auxv", to_string=True).splitlines():
        parts = line.split()
        if len(parts) > 2 and parts[1] in ("AT_PHDR", "AT_PHNUM"):
            auxiliary[parts[1]] = int(parts[-1], 0)
    if "AT_PHDR" in auxiliary:
        headers, count = auxiliary["AT_PHDR"], auxiliary["AT_PHNUM"]
        bias = 0
        for kind, place, _ in segments(headers, count):
            if kind == 6:  # the headers themselves
                bias = headers - place
        yield headers, count, bias
    for line in gdb.execute("info sharedlibrary", to_string=True).splitlines():
        parts = line.split()
        if not parts or not parts[0].startswith("0x"):
            continue
        try:
            with open(parts[-1], "rb") as file:
                text = section(file, b".text")
            bias = int(parts[0], 16) - text
            place, count = struct.unpack("<Q", read(bias + 32, 8))[0], struct.unpack("<H", read(bias + 56, 2))[0]
            yield bias + place, count, bias
        except (OSError, ValueError, struct.error, gdb.MemoryError):
            continue


def segments(headers, count):
    for index in range(count):
        kind, _, _, place, _, _, size, _ = struct.unpack("<IIQQQQQQ", read(headers + index * 56, 56))
        yield kind, place, size


def section(file, wanted):
    """The address of a section, as the file has it."""
    header = file.read(64)
    if header[:5] != b"\x7fELF\x02":
        raise ValueError("no ELF file")
    place, = struct.unpack_from("<Q", header, 40)
    _, count, names = struct.unpack_from("<HHH", header, 58)
    file.seek(place)
    table = [struct.unpack("<IIQQQQIIQQ", file.read(64)) for _ in range(count)]
    file.seek(table[names][4])
    strings = file.read(table[names][5])
    for entry in table:
        if strings[entry[0]:strings.index(b"\0", entry[0])] == wanted:
            return entry[3]
    raise ValueError("no such section")


def find_layout():
    found = False
    for headers, count, bias in images():
        for kind, place, size in segments(headers, count):
            address = find_note(place + bias, size) if kind == 4 else None
            if not address or read(address, 8) != b"corolay\0":
                continue
            version = word32(address + 8)
            size = word32(address + 12)
            if version != VERSION or size != Layout.SIZE:
                raise gdb.GdbError(
                    "The runtime in the program has layout %d, of %d bytes; this script knows %d, of %d bytes."
                    " Use the one that belongs to it." % (version, size, VERSION, Layout.SIZE))
            found = True
            layout = Layout(address)
            if layout.is_complete == 1:
                return layout
    if found:
        raise gdb.GdbError("No coroutine has been created yet.")
    raise gdb.GdbError("There is no coroutine runtime in the program.")


def find_note(start, size):
    """The address that the runtime's note leads to, if it is among these notes."""
    at = start
    while at + 12 <= start + size:
        name, value, kind = struct.unpack("<III", read(at, 12))
        behind = at + 12 + (name + 3 & ~3)
        if kind == 1 and name == 10 and read(at + 12, 10) == b"Coroutine\0":
            return behind + struct.unpack("<q", read(behind, 8))[0]
        at = behind + (value + 3 & ~3)
    return None


# The coroutines


class Stack:
    def __init__(self, limit, top, color):
        self.limit, self.top, self.color = limit, top, color

    def __contains__(self, address):
        return self.limit <= address < self.top


class Registers:
    def __init__(self, pc, sp, fp, base):
        self.pc, self.sp, self.fp, self.base = pc, sp, fp, base


class Coroutine:
    def __init__(self, id, name, state, waits_for="", stack=None, segments=(), is_generator=False, is_cancelled=False):
        self.id, self.name, self.state, self.waits_for = id, name, state, waits_for
        self.stack, self.segments, self.is_generator = stack, segments, is_generator
        self.is_cancelled = is_cancelled

    @property
    def label(self):
        kind = "generator" if self.is_generator else "coroutine"
        return "%s %d%s" % (kind, self.id, ' "%s"' % plain(self.name) if self.name else "")

    def __str__(self):
        cancelled = ", cancelled" if self.is_cancelled else ""
        waits_for = ", " + plain(self.waits_for) if self.waits_for else ""
        return "%s: %s%s%s" % (self.label, self.state, cancelled, waits_for)


class Process:
    """The coroutines of the stopped program."""

    def __init__(self):
        self.layout = find_layout()
        self.arenas = list(self.find_arenas())
        live = list(self.live_stacks())
        if live and all(map(self.is_blank, live)):
            raise gdb.GdbError(
                "The core file lacks memory of the coroutines. gdb's gcore leaves it out: have the kernel write it "
                "(ulimit -c unlimited; kill -SYS), or look at the process while it runs.")
        seen = set()
        self.all = [found for stack in live for found in [self.on_stack(stack, seen)] if found]
        for core in self.unstarted():
            found = self.unstarted_coroutine(core, seen)
            if found:
                self.all.append(found)
        self.all.sort(key=lambda coroutine: (coroutine.is_generator, coroutine.id))

    def find_arenas(self):
        layout = self.layout
        entry = word(layout.stack_pools)
        while entry:
            arena = word(word(entry) + layout.pool_newest_arena)
            entry = word(entry + 8)
            while arena:
                yield (
                    word(arena + layout.arena_base), word(arena + layout.arena_stack_size), word(arena + layout.arena_gap),
                    word(arena + layout.arena_slots), word(arena + layout.arena_live))
                arena = word(arena + layout.arena_older)

    @staticmethod
    def stack(arena, slot):
        base, size, gap, _, _ = arena
        limit = base + slot * (size + gap) + gap
        return Stack(limit, limit + size, slot & 15)

    def live_stacks(self):
        for arena in self.arenas:
            for index in range((arena[3] + 63) // 64):
                bits = word(arena[4] + index * 8)
                for bit in range(64):
                    if bits >> bit & 1:
                        yield self.stack(arena, index * 64 + bit)

    @staticmethod
    def is_blank(stack):
        """Whether the stack is unused: its uppermost part, where the block would be, is zero."""
        try:
            return not any(read(stack.top - 2048, 2048))
        except gdb.MemoryError:
            return True

    def stack_at(self, address):
        for arena in self.arenas:
            base, size, gap, slots, _ = arena
            if base <= address < base + slots * (size + gap):
                stack = self.stack(arena, (address - base) // (size + gap))
                return stack if address in stack else None
        return None

    def block(self, stack):
        return stack.top - stack.color * self.layout.block_color - self.layout.block_size & ~63

    def registers(self, context):
        layout = self.layout
        if not layout.context_is_known or not word(context + layout.context_live):
            return None
        base = word(context) if layout.context_indirect else context
        sp = base + layout.context_sp if layout.context_indirect else word(base + layout.context_sp)
        saved = 0 if layout.context_base == NO_WORD else word(base + layout.context_base)
        return Registers(word(base + layout.context_pc), sp, word(base + layout.context_fp), saved)

    def on_stack(self, stack, seen):
        layout = self.layout
        block = self.block(stack)
        states = {layout.state_ready: "ready", layout.state_suspended: "suspended", layout.state_running: "running"}
        state = word(block + layout.block_state)
        if state == layout.state_generator:
            own = self.registers(block)
            if self.registers(block + layout.context_size) or not own:
                return None
            id = word(block + layout.block_serial)
            return Coroutine(id, "", "suspended", "the next element to be asked for", stack, [(own, stack)], True)
        if state not in states:
            return None
        core = word(block + layout.block_owner)
        if core in seen:
            return None
        seen.add(core)
        parts = []
        next = None if state == layout.state_running else self.registers(block)
        while next:
            current = self.stack_at(next.sp)
            if not current:
                break
            parts.append((next, current))
            if current.top == stack.top:
                break
            # A generator's stack: its consumer is saved as its resumer.
            next = self.registers(self.block(current) + layout.context_size)
        waits_for = self.wait(core) if state == layout.state_suspended else ""
        return Coroutine(
            word(core + layout.core_id), string(core + layout.core_name), states[state], waits_for, stack, parts,
            is_cancelled=self.is_cancelled(core))

    def is_cancelled(self, core):
        extras = word(core + self.layout.core_extras)
        return extras != 0 and word(extras + self.layout.extras_cancelled) != 0

    def wait(self, core):
        layout = self.layout
        tag = read(core + layout.core_subject_tag, 1)[0]
        if tag not in (layout.subject_object, layout.subject_cases):
            return "its turn"
        operation = OPERATIONS[read(core + layout.core_operation, 1)[0]]
        if tag == layout.subject_object:
            return self.waited_at(operation, word(core + layout.core_subject))
        return operation

    def waited_at(self, operation, object):
        metadata = word(object)
        while metadata:
            # The type descriptor, and then the ancestor's metadata: Swift's ABI.
            known = self.layout.kinds.get(word(metadata + 40))
            if known:
                break
            metadata = word(metadata + 8)
        else:
            return operation
        kind, place = known
        if KINDS[kind] == "coroutine":
            if operation == "sleep":
                return operation
            return "the end of coroutine %d" % word(object + self.layout.core_id)
        if operation == "async":
            return "async code"
        name = "" if place == NO_WORD else string(object + place)
        return "%s, %s%s" % (operation, KINDS[kind], ' "%s"' % name if name else "")

    def unstarted(self):
        layout = self.layout

        def follow(core, link):
            while core:
                yield core
                core = word(core + link)

        pool = word(layout.thread_pools)
        while pool:
            core = word(pool + 8)
            yield from follow(word(core + layout.threads_global_first), layout.core_next_ready)
            workers = word(core + layout.threads_workers)
            for index in range(word(workers + 16)):
                worker = word(workers + 32 + index * 8)
                for offset in (layout.worker_slot, layout.worker_starting):
                    if word(worker + offset):
                        yield word(worker + offset)
                slots = word(worker + layout.worker_ring_slots)
                head, tail = word32(worker + layout.worker_ring_head), word32(worker + layout.worker_ring_tail)
                for number in range(min(tail - head & 0xFFFFFFFF, layout.worker_ring_capacity)):
                    element = word(slots + (head + number) % layout.worker_ring_capacity * 8)
                    if element:
                        yield element
                yield from follow(word(worker + layout.worker_line_first), layout.core_next_ready)
            pool = word(pool)
        row = word(layout.unstarted_rows)
        while row:
            for index in range(word(row + layout.row_count)):
                core = word(row + layout.row_slots + index * 8)
                if core:
                    yield core
            row = word(row + layout.row_next)

    def unstarted_coroutine(self, core, seen):
        layout = self.layout
        # A coroutine that begins gets its block first. Once the block has a state, the coroutine is found on its
        # stack.
        block = word(core + layout.core_block)
        is_off_stack = block == 0 or word(block + layout.block_state) == 0
        is_new = is_off_stack and read(core + layout.core_state, 1)[0] == layout.core_state_ready
        if core in seen or not is_new:
            return None
        seen.add(core)
        return Coroutine(
            word(core + layout.core_id), string(core + layout.core_name), "not begun",
            is_cancelled=self.is_cancelled(core))

    def find(self, text):
        if not text.isdigit():
            raise gdb.GdbError("Which coroutine? Give its number, as `coroutines` shows it.")
        for coroutine in self.all:
            if coroutine.id == int(text) and not coroutine.is_generator:
                return coroutine
        raise gdb.GdbError("There is no coroutine %s." % text)


# Frames


class Id:
    def __init__(self, sp, pc):
        self.sp, self.pc = sp, pc


class CoroutineUnwinder(gdb.unwinder.Unwinder):
    """While registers are chosen, makes the frames that they lead to the callers of the thread's innermost frame."""

    def __init__(self):
        super().__init__("coroutines")
        self.chosen = None

    def choose(self, registers):
        self.chosen = registers
        gdb.invalidate_cached_frames()

    def __call__(self, pending):
        if not self.chosen:
            return None
        pc = int(pending.read_register(REGISTERS["pc"]))
        # Functions that are inlined at this pc have frames, too, which come first.
        if pending.level() > inlined_at(pc):
            # The first function has no caller. If its caller's address is 0, gdb would go on. It stops at a frame
            # whose caller is the same frame.
            if pc != 0:
                return None
            info = pending.create_unwind_info(Id(gdb.Value(0), gdb.Value(0)))
            info.add_saved_register(REGISTERS["pc"], pending.read_register(REGISTERS["pc"]))
            return info
        # Below every stack: gdb rejects a caller that lies further down.
        info = pending.create_unwind_info(Id(gdb.Value(4096), pending.read_register(REGISTERS["pc"])))
        for name, register in REGISTERS.items():
            value = gdb.Value(getattr(self.chosen, name))
            info.add_saved_register(register, value.cast(gdb.lookup_type("unsigned long")))
        return info


def inlined_at(pc):
    """How many functions are inlined at this address."""
    block, functions = gdb.block_for_pc(pc), 0
    while block and not block.is_static and not block.is_global:
        functions += block.function is not None
        block = block.superblock
    return max(0, functions - 1)


def first_frame():
    """The first frame after the thread's own."""
    frame = gdb.newest_frame()
    while frame.type() == gdb.INLINE_FRAME:
        frame = frame.older()
    return frame.older()


REGISTERS = {"pc": "rip", "sp": "rsp", "fp": "rbp", "base": "rbx"}
if "aarch64" in gdb.execute("show architecture", to_string=True):
    REGISTERS = {"pc": "pc", "sp": "sp", "fp": "x29", "base": "x19"}

unwinder = CoroutineUnwinder()
gdb.unwinder.register_unwinder(None, unwinder, replace=True)
# The choice holds as long as the program is stopped.
gdb.events.cont.connect(lambda _: unwinder.choose(None))


def frames(coroutine):
    """(pc, name, place in the source) of each frame, innermost first."""
    before = unwinder.chosen
    found = []
    try:
        for registers, stack in coroutine.segments:
            unwinder.choose(registers)
            frame = first_frame()
            # Where a stack ends, gdb may go on through memory that is no code.
            while frame and frame.pc() and frame.pc() not in stack and int(frame.read_register(REGISTERS["sp"])) in stack:
                line = frame.find_sal()
                place = " at %s:%d" % (line.symtab.filename, line.line) if line.symtab else ""
                found.append((frame.pc(), frame.name() or "??", place))
                # Boost's first function has no unwind information, so the caller that gdb finds for it means nothing.
                frame = frame.older() if frame.name() != "make_fcontext" else None
    finally:
        unwinder.choose(before)
    return found


def demangled(names):
    """Swift's names demangled, if the toolchain is there."""
    mangled = sorted(name for name in names if name.startswith("$s"))
    command = shutil.which("swift-demangle")
    if not mangled or not command:
        return {}
    output = subprocess.run(
        [command, "--simplified"], input="\n".join(mangled), capture_output=True, text=True, check=False).stdout
    lines = output.rstrip("\n").split("\n")
    if len(lines) != len(mangled):
        return {}
    # The short form does not show that a function was merged, and so may be another one.
    lines = ["merged " * name.split(".")[0].endswith("Tm") + line for name, line in zip(mangled, lines)]
    return dict(zip(mangled, lines))


def print_backtraces(coroutines):
    all_frames = [(coroutine, frames(coroutine)) for coroutine in coroutines]
    names = demangled({name for _, found in all_frames for _, name, _ in found})
    for coroutine, found in all_frames:
        print(coroutine)
        thread = thread_on(coroutine) if coroutine.state == "running" else None
        if thread:
            print("    on thread %d: `thread %d`, then `bt`" % (thread, thread))
        for number, (pc, name, place) in enumerate(found):
            print("#%-3d 0x%016x in %s" % (number, pc, plain(names.get(name, name) + place)))


def thread_on(coroutine):
    """The number of the thread that runs on a coroutine's stack."""
    selected, before = gdb.selected_thread(), unwinder.chosen
    unwinder.choose(None)
    try:
        for thread in gdb.selected_inferior().threads():
            thread.switch()
            if coroutine.stack and int(gdb.newest_frame().read_register(REGISTERS["sp"])) in coroutine.stack:
                return thread.num
    finally:
        selected.switch()
        unwinder.choose(before)
    return None


# Commands


class Coroutines(gdb.Command):
    """Lists the coroutines of the program: what each is doing, and what it waits for."""

    def __init__(self):
        super().__init__("coroutines", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        for coroutine in Process().all:
            print(coroutine)


class CoroutineCommand(gdb.Command):
    """Shows where coroutines are suspended.

coroutine N bt, coroutine bt N: the backtrace of coroutine N.
coroutine all bt, coroutine bt all: those of all.
coroutine select N: `bt`, `up`, `frame 1` and `info locals` see coroutine N, behind the thread's own frame 0.
coroutine select 0: they see the thread again. So they do when the program goes on."""

    def __init__(self):
        super().__init__("coroutine", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        words = gdb.string_to_argv(argument)
        if len(words) != 2 or not {"bt", "select"} & set(words):
            raise gdb.GdbError("coroutine N bt, coroutine all bt, or coroutine select N")
        if words == ["select", "0"]:
            unwinder.choose(None)
            gdb.execute("frame 0")
        elif words[0] == "select":
            self.select(Process().find(words[1]))
        else:
            words.remove("bt")
            process = Process()
            print_backtraces(process.all if words == ["all"] else [process.find(words[0])])

    @staticmethod
    def select(coroutine):
        if not coroutine.segments:
            raise gdb.GdbError("%s. Only one that is suspended, or ready, has frames to look at here." % coroutine)
        unwinder.choose(coroutine.segments[0][0])
        print(coroutine)
        first_frame().select()
        gdb.execute("frame")


Coroutines()
CoroutineCommand()
