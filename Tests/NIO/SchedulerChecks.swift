import Coroutine
import CoroutineNIO
import NIOCore
import NIOPosix

let schedulerChecks = [
  Check("aLoopHasOneSchedulerAsLongAsItIsUsed") {
    let loop = group.next()
    let first = EventLoopScheduler.of(loop)
    try expect("the same", EventLoopScheduler.of(loop) === first)
    try expect("another loop's", EventLoopScheduler.of(group.next()) !== first)
  },

  Check("aSchedulerGoesWithItsLastUser") {
    weak var scheduler: EventLoopScheduler?
    let loop = group.next()
    func use() throws {
      let used = EventLoopScheduler.of(loop)
      scheduler = used
      try Coroutine(on: used) {}.get()
    }
    try use()
    // The loop may still be in the turn.
    try wait { scheduler == nil }
    try Coroutine(on: .eventLoop(loop)) { try expect("on the loop", loop.inEventLoop) }.get()
  },

  Check("aCoroutineStaysOnItsLoopWhoeverWakesIt") {
    let loop = group.next()
    let channel = Coroutine::Channel<Int>()
    let waiter = Coroutine(on: .eventLoop(loop)) {
      for _ in 0..<100 {
        try expect("on the loop before the wait", loop.inEventLoop)
        _ = try channel.receive()
        try expect("on the loop after the wait", loop.inEventLoop)
        try Coroutine.sleep(for: .microseconds(1))
        try expect("on the loop after a sleep", loop.inEventLoop)
      }
    }
    for number in 0..<100 { try channel.send(number) }
    try waiter.get()
  },

  Check("oneBeginsAtOnceInAHandlerOfTheLoop") {
    let loop = group.next()
    let log = Log()
    let job = try loop.submit {
      let job = Coroutine.immediate(on: .eventLoop(loop)) {
        log.add("begins")
        Coroutine.yield()
        log.add("goes on")
      }
      log.add("handler")
      return job
    }.get()
    try job.get()
    try expect("order", log.all, ["begins", "handler", "goes on"])
  },

  Check("coroutinesThatYieldForEverLeaveTheLoopItsSockets") {
    let (client, server) = try makePair()
    let yielders = (0..<2).map { _ in
      Coroutine(on: .eventLoop(server.eventLoop)) { while !Coroutine.isCancelled { Coroutine.yield() } }
    }
    for _ in 0..<10 {
      try client.write(text("ping"))
      try expect("what arrives", try server.readText(4), "ping")
    }
    for yielder in yielders {
      yielder.cancel()
      try yielder.join()
    }
  },

  Check("manyLoadsFromOtherThreadsAreAllRun") {
    let loop = group.next()
    let ends = WaitGroup()
    for _ in 0..<10 {
      ends.add()
      Coroutine(on: .pool) {
        for _ in 0..<200 {
          ends.add()
          Coroutine(on: .eventLoop(loop)) {
            Coroutine.yield()
            ends.done()
          }
        }
        ends.done()
      }
    }
    try ends.wait()
  },
]
