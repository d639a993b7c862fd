import CCoroutineIO
import Coroutine
import CoroutineIO
import CoroutineTestSupport
import Glibc
import Testing

@Suite(.ownThreads)
struct DescriptorTests {
  /// Two ends of a stream.
  private func makePair() throws -> (Descriptor, Descriptor) {
    var ends: [Int32] = [0, 0]
    try #require(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
    return (try Descriptor(adopting: ends[0], name: "left"), try Descriptor(adopting: ends[1], name: "right"))
  }

  @Test func waitsUntilThereIsSomethingToRead() throws {
    let (left, right) = try makePair()
    let reader = Coroutine(on: .pool) { () throws -> UInt8 in
      try left.waitUntilReadable()
      return try left.withFileDescriptor {
        var byte: UInt8 = 0
        return read($0, &byte, 1) == 1 ? byte : 0
      }
    }
    try right.withFileDescriptor { _ = write($0, [7], 1) }
    #expect(try reader.getBlocking() == 7)
  }
}
