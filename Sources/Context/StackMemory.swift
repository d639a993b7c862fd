// SPDX-License-Identifier: Apache-2.0

import CCoroutineSystem
import CoroutineLibc

/// What a pool asks of the system. A value, so that a test can put failures in place of each.
package struct StackMemory: Sendable {
  /// An errno.
  package struct Failure: Error {
    package let code: CInt

    package init(code: CInt) {
      self.code = code
    }
  }

  /// Address space for `bytes`: readable, writable, zero, without memory behind it yet.
  package var reserve: @Sendable (_ bytes: Int) throws(Failure) -> UnsafeMutableRawPointer

  package var unreserve: @Sendable (_ range: UnsafeMutableRawBufferPointer) -> Void

  package var protect: @Sendable (_ range: UnsafeMutableRawBufferPointer, _ protection: CInt) throws(Failure) -> Void

  /// `madvise` on each of the ranges, in order. Returns how many are done, and the errno that kept it from doing more, or 0.
  package var advise: @Sendable (_ ranges: UnsafeBufferPointer<iovec>, _ advice: CInt) -> (done: Int, code: CInt)

  /// How many memory mappings the process has, or nil where that cannot be read.
  package var countMappings: @Sendable () -> Int?

  /// Gives the kernel what the owners of very many stacks have freed in `malloc`.
  package var giveBackFreedMemory: @Sendable () -> Void

  package static let kernel = StackMemory(
    reserve: { (bytes) throws(Failure) in
      // Unreserved and private: a slot costs nothing until its first page is touched.
      let address = mmap(
        nil, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0)
      guard let address, address != MAP_FAILED else { throw Failure(code: errno) }
      // One word on the stack must not bring in 2 MiB. A kernel without huge pages refuses, and is right already.
      madvise(address, bytes, MADV_NOHUGEPAGE)
      return address
    },
    unreserve: { range in
      munmap(range.baseAddress, range.count)
    },
    protect: { (range, protection) throws(Failure) in
      guard mprotect(range.baseAddress, range.count, protection) == 0 else { throw Failure(code: errno) }
    },
    advise: { ranges, advice in
      guard let first = ranges.baseAddress else { return (0, 0) }
      var done = 0
      let result = coroutine_system_madvise_ranges(first, ranges.count, advice, &done)
      return (done, -result)
    },
    countMappings: {
      let file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC)
      guard file >= 0 else { return nil }
      defer { close(file) }
      return withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 4096) { buffer in
        var lines = 0
        while true {
          let count = read(file, buffer.baseAddress, buffer.count)
          if count == 0 { return lines }
          if count < 0 {
            if errno == EINTR { continue }
            return nil
          }
          for byte in buffer.prefix(count) where byte == 0x0a { lines += 1 }
        }
      }
    },
    giveBackFreedMemory: { coroutine_system_give_back_freed_memory() })
}

extension StackMemory {
  /// Gives the pages of each stack back but for the `keeping` highest bytes. They read as zero afterwards; guards stay.
  ///
  /// MADV_DONTNEED, not MADV_FREE: both cost the same in batches (0.5 us a stack), but what is freed lazily stays in the
  /// resident set, and is charged to the container, until the system runs short. A refusal (locked memory) is no error:
  /// nothing relies on the pages being gone.
  func discard(_ stacks: UnsafeBufferPointer<Stack>, keeping: Int) {
    withUnsafeTemporaryAllocation(of: iovec.self, capacity: stacks.count) { ranges in
      for (index, stack) in stacks.enumerated() {
        ranges.initializeElement(at: index, to: iovec(iov_base: stack.limit, iov_len: max(0, stack.size - keeping)))
      }
      _ = advise(UnsafeBufferPointer(ranges), MADV_DONTNEED)
    }
  }

  /// Takes a range back to what `reserve` made: no guards, no pages, and where the kernel gives up empty ones (Linux 6.14
  /// on x86-64) no page tables. A refusal is no error: nothing relies on a guard being gone.
  ///
  /// Guards by `mprotect` leave one mapping a stack of two: memory that was touched does not merge with its neighbours.
  /// Mapping the range anew would, but if that failed half-way, other code's memory could get in between.
  func reset(_ range: UnsafeMutableRawBufferPointer) {
    try? protect(range, PROT_READ | PROT_WRITE)
    withUnsafePointer(to: iovec(iov_base: range.baseAddress, iov_len: range.count)) { range in
      let ranges = UnsafeBufferPointer(start: range, count: 1)
      _ = advise(ranges, CInt(COROUTINE_SYSTEM_MADV_GUARD_REMOVE))
      _ = advise(ranges, MADV_DONTNEED)
    }
  }

  /// How many bytes at the top of the stack have memory behind them. Asks the kernel; touches no page of the stack.
  /// Looks downwards by a MiB until it finds nothing.
  package static func residentBytes(of stack: Stack) -> Int {
    let pageSize = StackGeometry.pageSize
    return withUnsafeTemporaryAllocation(of: UInt8.self, capacity: (1 << 20) / pageSize) { residency in
      var total = 0
      var end = stack.top
      while end > stack.limit {
        let start = max(stack.limit, end - residency.count * pageSize)
        let pages = (end - start) / pageSize
        guard mincore(start, end - start, residency.baseAddress) == 0 else { break }
        let resident = residency.prefix(pages).reduce(0) { $0 + Int($1 & 1) }
        if resident == 0 { break }
        total += resident * pageSize
        end = start
      }
      return total
    }
  }

  /// How many bytes at the top of the stack have been written to since it had no pages: where its lowest word lies that is not
  /// 0. Asks the kernel; touches no page that has no memory.
  package static func peak(of stack: Stack) -> Int {
    let pageSize = StackGeometry.pageSize
    return withUnsafeTemporaryAllocation(of: UInt8.self, capacity: (1 << 20) / pageSize) { residency in
      var start = stack.limit
      while start < stack.top {
        let end = min(stack.top, start + residency.count * pageSize)
        guard mincore(start, end - start, residency.baseAddress) == 0 else { return 0 }
        for page in 0..<(end - start) / pageSize where residency[page] & 1 != 0 {
          let first = start + page * pageSize
          let count = pageSize / MemoryLayout<UInt>.size
          let zeros = coroutine_system_zero_words(first.assumingMemoryBound(to: UInt.self), count)
          if zeros < count { return stack.top - first - zeros * MemoryLayout<UInt>.size }
        }
        start = end
      }
      return 0
    }
  }

  /// The most memory mappings that a process may have: `vm.max_map_count`, or its usual value where it cannot be read.
  static func mapLimit() -> Int {
    let usual = 65530
    let file = open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { return usual }
    defer { close(file) }
    return withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 32) { buffer in
      let count = read(file, buffer.baseAddress, buffer.count)
      let digits = buffer.prefix(max(0, count)).prefix { (0x30...0x39).contains($0) }
      return digits.isEmpty ? usual : digits.reduce(0) { $0 * 10 + Int($1 - 0x30) }
    }
  }
}
