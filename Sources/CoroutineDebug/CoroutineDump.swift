// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import CCoroutineUnwind
import Coroutine
import CoroutineLibc

/// What the coroutines of the process are doing: a backtrace of each that does not run.
///
/// ```swift
/// try CoroutineDump.write()                        // to the standard error, as below
/// let dump = try CoroutineDump.capture()           // to look at
/// ```
///
///     1,001 coroutines: 1 running, 1,000 suspended
///
///     1,000 coroutines: suspended for 2.1 s, receive on channel "jobs" (buffered 0/64, 1000 receivers)
///        17 "worker", 18 "worker", 19 "worker", 20 "worker", and 996 more
///        on the pool, created by coroutine 3, in scope "workers", up to 1.2 of 256 KiB of stack
///        0  0x00005581f00e4c52 closure #1 in startWorkers(_:) at Workers.swift:8
///
/// All coroutines are in it: those that wait, are ready, have not begun, or run. Those that run have no frames, unless their
/// threads may be interrupted for that. (`write` may miss a coroutine that begins while a thousand others are written, if
/// another dump, made meanwhile, has it.)
/// Not one that is lazy and was not started: it is an object that its handles own, and waits for no thread.
/// Generators that are suspended in a `yield` are listed behind them.
public struct CoroutineDump: Sendable {
  /// One for each coroutine, in the order of their numbers; then the generators.
  public let coroutines: [CoroutineBacktrace]

  /// Reads the stacks of all coroutines.
  ///
  /// They are kept from running meanwhile, about 2 us at most for each of them, and 0.025 us a frame. Names and lines are looked
  /// up after that, once for each address in the program: some milliseconds, or as many as the debug information has megabytes.
  /// Takes some 200 bytes for each coroutine: `write` does not.
  ///
  /// Callable from any thread, also inside a coroutine, which must have 64 KiB of its stack left. Not in a signal handler:
  /// see `onSignal(_:to:options:)`. Needs no lock that the program could hold.
  ///
  /// - Parameters:
  ///   - frameLimit: how many frames of a coroutine are kept, innermost first; at least 1.
  ///   - interruptsThreads: reads the frames of coroutines that run, too. See `Options.interruptsThreads` for what that does
  ///     to their threads.
  ///   - stackPeaks: looks how deep each stack has been, too: for `stackSizes`.
  /// - Throws: `Unavailable`.
  public static func capture(
    frameLimit: Int = 1000, interruptsThreads: Bool = false, stackPeaks: Bool = false
  ) throws(Unavailable) -> CoroutineDump {
    require(frameLimit > 0, "a dump of at most \(frameLimit) frames a coroutine shows nothing")
    return try explaining {
      var capture = try StackCapture(
        frameLimit: frameLimit, asking: interruptsThreads ? .all : .none, stackPeaks: stackPeaks)
      return try capture.dump()
    }
  }

  /// Says in public words why coroutines can't be looked at.
  static func explaining<Result>(_ look: () throws -> Result) throws(Unavailable) -> Result {
    do {
      return try look()
    } catch {
      throw Unavailable(description: "\(error)")
    }
  }

  /// Coroutines can't be kept from running here, and so can't be looked at.
  public struct Unavailable: Error, CustomStringConvertible {
    /// What is missing.
    public let description: String
  }
}

extension CoroutineDump {
  /// Makes a dump and writes it to a file descriptor, by default the standard error.
  ///
  /// What is said at `write(options:_:)` holds.
  ///
  /// - Throws: `CoroutineDumpError` if the system refuses to write; `Unavailable`.
  public static func write(to descriptor: CInt = 2, options: Options = Options()) throws {
    try write(options: options, isColored: options.colors == .automatic && isColored(descriptor)) {
      try writeAll($0, to: descriptor)
    }
  }

  /// Makes a dump and writes it piece by piece, so that its memory does not grow with the number of coroutines, but with
  /// that of different stacks.
  ///
  /// Coroutines are kept from running while the stacks are read, not while `sink` is called.
  ///
  /// Callable from any thread, also inside a coroutine, which must have 64 KiB of its stack left. Not in a signal handler.
  ///
  /// - Parameters:
  ///   - options: how it is made and written.
  ///   - sink: gets the bytes of a piece, some KiB, to be used before it returns. What it throws is thrown. It may block its
  ///     thread, but must not suspend the calling coroutine.
  /// - Throws: `Unavailable`.
  public static func write(options: Options = Options(), _ sink: (UnsafeRawBufferPointer) throws -> Void) throws {
    try write(options: options, isColored: false, sink)
  }

  private static func write(
    options: Options, isColored: Bool, _ sink: (UnsafeRawBufferPointer) throws -> Void
  ) throws {
    require(
      options.frameLimit > 0, "a dump of at most \(options.frameLimit) frames a coroutine shows nothing")
    do {
      var capture = try StackCapture(
        frameLimit: options.frameLimit, asking: options.interruptsThreads ? .all : .none,
        stackPeaks: options.stackPeaks)
      try write(from: &capture, options: options, isColored: isColored, sink)
    } catch let problem as Inspection.Unavailable {
      throw Unavailable(description: "\(problem)")
    } catch let problem as Unwinder.OutOfMemory {
      throw Unavailable(description: "\(problem)")
    }
  }
}

// MARK: - From any source

extension CoroutineDump {
  /// Writes a dump to a file descriptor.
  package static func write<Source: DumpSource & ~Copyable>(
    from source: inout Source, to descriptor: CInt, options: Options
  ) throws {
    let isColored = options.colors == .automatic && isColored(descriptor)
    try write(from: &source, options: options, isColored: isColored) { try writeAll($0, to: descriptor) }
  }

  fileprivate static func write<Source: DumpSource & ~Copyable>(
    from source: inout Source, options: Options, isColored: Bool, _ sink: (UnsafeRawBufferPointer) throws -> Void
  ) throws {
    try withoutActuallyEscaping(sink) { sink in
      var output = DumpOutput(sink)
      try write(&source, options: options, isColored: isColored || options.colors == .always, to: &output)
      try output.finish()
    }
  }

  /// In ungrouped dumps coroutines go on after so many.
  private static var batch: Int { 1024 }
  /// Names take that much at most: the symbol tables of a large program.
  private static var memoryForNames: Int { 64 << 20 }

  private static func write<Source: DumpSource & ~Copyable>(
    _ capture: inout Source, options: Options, isColored: Bool, to output: inout DumpOutput
  ) throws {
    let findsNames = options.names && isMemoryAvailable(memoryForNames)
    switch options.format {
    case .json:
      try writeJSON(&capture, options, findsNames: findsNames, to: &output)
    case .text:
      var warnings = capture.warnings
      if options.names && !findsNames { warnings.append("too little memory to look up names") }
      if !warnings.isEmpty { output.write(warnings.map { "(\($0.onOneLine))\n" }.joined() + "\n") }
      let style = DumpStyle(folds: options.folds, fullPaths: options.fullPaths, isColored: isColored)
      var extras = DumpExtras(tree: options.tree ? ScopeTree() : nil, peaks: options.stackPeaks ? StackPeaks() : nil)
      var symbolicator =
        options.groups
        ? try writeGroups(&capture, style, findsNames: findsNames, &extras, to: &output)
        : try writeEach(&capture, style, findsNames: findsNames, &extras, to: &output)
      if let tree = extras.tree {
        output.write("\n")
        tree.write(to: &output)
      }
      if let peaks = extras.peaks {
        style.write(peaks.sizes { symbolicator.frames(of: capture.stacks[$0]) }, to: &output)
      }
    }
  }

  /// What is said behind the coroutines.
  private struct DumpExtras {
    var tree: ScopeTree?
    var peaks: StackPeaks?

    mutating func insert(_ coroutine: CoroutineBacktrace) {
      tree?.insert(coroutine)
      peaks?.insert(coroutine)
    }
  }

  private static func writeJSON<Source: DumpSource & ~Copyable>(
    _ capture: inout Source, _ options: Options, findsNames: Bool, to output: inout DumpOutput
  ) throws {
    var json = DumpJSON()
    var peaks = options.stackPeaks ? StackPeaks() : nil
    json.begin(capture.process, warnings: capture.warnings, to: &output)
    try readInBatches(&capture) { batch, _ in
      for coroutine in batch {
        json.write(coroutine, to: &output)
        peaks?.insert(coroutine)
      }
      try output.check()
    }
    var symbolicator = capture.symbolicator(namesFunctions: findsNames)
    let stacks = (0..<capture.stacks.count).map { symbolicator.frames(of: capture.stacks[$0]) }
    json.end(stacks: stacks, sizes: peaks?.sizes { stacks[$0] }, to: &output)
  }

  private static func writeGroups<Source: DumpSource & ~Copyable>(
    _ capture: inout Source, _ style: DumpStyle, findsNames: Bool, _ extras: inout DumpExtras,
    to output: inout DumpOutput
  ) throws -> Symbolicator {
    var groups = DumpGroups()
    try capture.readAll {
      groups.insert($0)
      extras.insert($0)
    }
    output.write(groups.summary + "\n")
    var symbolicator = capture.symbolicator(namesFunctions: findsNames)
    for group in groups.sorted {
      output.write("\n")
      style.write(
        group, frames: symbolicator.frames(of: capture.stacks[group.sample.stackNumber]),
        creationFrames: group.sample.creatorsNumber.map { symbolicator.frames(of: capture.stacks[$0]) } ?? [],
        to: &output)
      try output.check()
    }
    return symbolicator
  }

  private static func writeEach<Source: DumpSource & ~Copyable>(
    _ capture: inout Source, _ style: DumpStyle, findsNames: Bool, _ extras: inout DumpExtras,
    to output: inout DumpOutput
  ) throws -> Symbolicator {
    var symbolicator = capture.symbolicator(namesFunctions: findsNames)
    var isFirst = true
    try readInBatches(&capture) { batch, stacks in
      for coroutine in batch {
        extras.insert(coroutine)
        if !isFirst { output.write("\n") }
        isFirst = false
        style.write(
          DumpGroup(coroutine), frames: symbolicator.frames(of: stacks[coroutine.stackNumber]),
          creationFrames: coroutine.creatorsNumber.map { symbolicator.frames(of: stacks[$0]) } ?? [], to: &output)
      }
      try output.check()
    }
    if isFirst { output.write("no coroutines\n") }
    return symbolicator
  }

  /// Passes on what was found while they were kept from running, when they are not.
  private static func readInBatches<Source: DumpSource & ~Copyable>(
    _ capture: inout Source, _ body: ([CoroutineBacktrace], borrowing StackTable) throws -> Void
  ) throws {
    var found: [CoroutineBacktrace] = []
    // Both closures change it, and never at the same time.
    try withUnsafeMutablePointer(to: &found) { found in
      try capture.readAll(batch: batch) { capture in
        try body(found.pointee, capture.stacks)
        found.pointee.removeAll(keepingCapacity: true)
      } _: {
        found.pointee.append($0)
      }
      try body(found.pointee, capture.stacks)
    }
  }
}

// MARK: - What is recorded before a dump

extension CoroutineDump {
  /// Whether coroutines note when they suspend and when they are woken, for `duration`. On from the start in a program that
  /// links CoroutineDebug; costs some nanoseconds for each suspension and each wake.
  public static var recordsTimes: Bool {
    get { coroutine_times_are_recorded() }
    set { coroutine_record_times(newValue) }
  }

  /// Whether each coroutine and generator that begins from now on gets a stack without memory, so that
  /// `CoroutineBacktrace.stackPeak` is its own: a microsecond for each, and one for each page that it touches.
  public static var measuresStacks: Bool {
    get { coroutine_stacks_are_measured() }
    set { coroutine_measure_stacks(newValue) }
  }

  /// Whether coroutines that are created from now on record the calls that created them, for `creationFrames`: a
  /// microsecond or more, and some 200 bytes for each.
  public static var recordsCreation: Bool {
    get { coroutine_get_creation_backtracer() != nil }
    set { coroutine_set_creation_backtracer(newValue ? coroutine_unwinder_creation_backtrace : nil) }
  }
}
