// The operators, given what `async` code iterates over.

import Coroutine

func merges(_ first: Channel<Int>, _ second: Channel<Int>, _ stream: AsyncStream<Int>) {
  // expected-error@+1 {{'merge' is unavailable: pass 'channel.received', in a coroutine; let a child send other sequences into a channel}}
  _ = merge(first, second)
  // expected-error@+1 {{'merge' is unavailable: pass 'channel.received', in a coroutine; let a child send other sequences into a channel}}
  _ = merge(first, stream)
  // expected-error@+1 {{'combineLatest' is unavailable: pass 'channel.received', in a coroutine; let a child send other sequences into a channel}}
  _ = combineLatest(first, second)
  // expected-error@+1 {{'zip' is unavailable: pass 'channel.received', in a coroutine; let a child send other sequences into a channel}}
  _ = zip(first, second)
}
