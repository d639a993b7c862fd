import Coroutine
import CoroutineTestSupport
import Glibc
import Testing

@testable import CoroutineIO

@Suite(.ownThreads)
struct SocketAddressTests {
  @Test(arguments: [
    "127.0.0.1:80", "0.0.0.0:0", "255.255.255.255:65535", "[::1]:80", "[2001:db8::ff00:42:8329]:443",
    "[::ffff:1.2.3.4]:1", "unix:/tmp/socket", "unix:@abstract",
  ])
  func textAndKernelFormComeBack(_ text: String) throws {
    let address = try #require(SocketAddress(text))
    #expect(address.description == text)
    let back = address.withSockaddr { SocketAddress($0, length: $1) }
    #expect(back == address)
  }

  @Test(arguments: [
    "@foo", "./@foo", "././@foo", "./foo", "(unnamed)", "./(unnamed)", "@", "./", "foo/@bar", "unix:@foo",
  ])
  func aPathIsTakenForNothingElse(_ path: String) throws {
    let address = try SocketAddress.unix(path: path)
    #expect(SocketAddress(address.description) == address)
    #expect(try SocketAddress.unix(abstractName: path).description != address.description)
  }

  @Test func anAddressWithoutANameComesBack() throws {
    let (one, _) = try UnixConnection.pair()
    let unnamed = try one.localAddress
    #expect(SocketAddress(unnamed.description) == unnamed)
    #expect(try SocketAddress.unix(path: "(unnamed)").description != unnamed.description)
  }

  @Test(arguments: [
    "", ":80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "256.0.0.1:1", "::1:80", "[::1]",
    "[::1]80",
    "[127.0.0.1]:80", "localhost:80", "unix:", "[::1%no-such-interface]:80", "127.0.0.1:+80", "[fe80::1%+1]:80",
    "127.0.0.1:-0",
  ])
  func whatIsNoAddressIsRefused(_ text: String) {
    #expect(SocketAddress(text) == nil)
  }

  @Test func partsAreTold() throws {
    let four = try SocketAddress(ip: "192.0.2.1", port: 8080)
    #expect(four.family == .ipv4)
    #expect(four.ip == "192.0.2.1")
    #expect(four.port == 8080)
    #expect(four.path == nil)
    let six = try SocketAddress(ip: "fe80::1%1", port: 1)
    #expect(six.family == .ipv6)
    #expect(six.description == "[fe80::1%1]:1")
    let path = try SocketAddress.unix(path: "/tmp/x")
    #expect(path.family == .unix)
    #expect(path.path == "/tmp/x")
    #expect(path.port == nil)
    #expect(try SocketAddress.unix(abstractName: "x").path == nil)
  }

  @Test func impossibleOnesThrow() {
    #expect(throws: InvalidAddress.self) { try SocketAddress(ip: "127.0.0.1", port: 65_536) }
    #expect(throws: InvalidAddress.self) { try SocketAddress(ip: "localhost", port: 1) }
    #expect(throws: InvalidAddress.self) { try SocketAddress.unix(path: "") }
    #expect(throws: InvalidAddress.self) { try SocketAddress.unix(path: String(repeating: "x", count: 108)) }
    #expect(throws: InvalidAddress.self) { try SocketAddress.unix(path: "a\0b") }
    #expect(throws: Never.self) { try SocketAddress.unix(path: String(repeating: "x", count: 107)) }
  }

  @Test func aZeroByteIsNoPartOfAnAddress() throws {
    #expect(throws: InvalidAddress.self) { try SocketAddress(ip: "127.0.0.1\0.example", port: 80) }
    #expect(SocketAddress("127.0.0.1\0.example:80") == nil)
    try runUntilComplete {
      let error = #expect(throws: InvalidAddress.self) { try TCPConnection(to: "127.0.0.1\0.example", port: 80) }
      #expect(error?.reason == "it is no host's name")
    }
  }

  @Test func equalOnesAreEqualWhateverTheyCameFrom() throws {
    #expect(try SocketAddress(ip: "::1", port: 1) == SocketAddress(ip: "0:0::0:1", port: 1))
    #expect(try SocketAddress(ip: "::1", port: 1) != SocketAddress(ip: "::1", port: 2))
    #expect(try SocketAddress.unix(path: "a") != SocketAddress.unix(abstractName: "a"))
  }
}
