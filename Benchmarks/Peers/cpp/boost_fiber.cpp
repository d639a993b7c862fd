// SPDX-License-Identifier: Apache-2.0

// Boost.Fiber: one thread, its round-robin scheduler.

#include <atomic>
#include <boost/fiber/all.hpp>
#include <memory>
#include <mutex>
#include <utility>

#include "serve.hpp"

namespace fib = boost::fibers;
using Buffered = fib::buffered_channel<std::int64_t>;
using Unbuffered = fib::unbuffered_channel<std::int64_t>;

constexpr std::size_t stack_size = 64 << 10;
// Stacks that are used again, as in the runtime's pool.
static fib::pooled_fixedsize_stack pooled_stacks(stack_size);

template <typename Body>
static fib::fiber post(Body body) {
  return fib::fiber(fib::launch::post, std::allocator_arg, pooled_stacks, std::move(body));
}

// Two fibers that let each other run in turn.
static std::int64_t take_turns(std::int64_t turns) {
  auto take = [turns] {
    std::int64_t taken = 0;
    for (; taken < turns / 2; taken++) boost::this_fiber::yield();
    return taken;
  };
  std::int64_t others = 0;
  fib::fiber other = post([&] { others = take(); });
  const std::int64_t own = take();
  other.join();
  return own + others;
}

template <fib::launch policy>
static std::int64_t spawn_one(std::int64_t count) {
  std::int64_t finished = 0;
  for (std::int64_t i = 0; i < count; i++) {
    fib::fiber(policy, std::allocator_arg, pooled_stacks, [&finished] { finished++; }).join();
  }
  return finished;
}

static std::int64_t spawn_many(std::int64_t count) {
  constexpr std::int64_t batch = 10'000;
  std::int64_t finished = 0;
  std::vector<fib::fiber> fibers;
  fibers.reserve(batch);
  for (std::int64_t i = 0; i < count / batch; i++) {
    for (std::int64_t j = 0; j < batch; j++) fibers.push_back(post([&finished] { finished++; }));
    for (fib::fiber &fiber : fibers) fiber.join();
    fibers.clear();
  }
  return finished;
}

static std::int64_t round_trips(std::int64_t count) {
  Unbuffered questions, answers;
  fib::fiber partner = post([&] {
    for (std::int64_t question : questions) answers.push(question + 1);
  });
  std::int64_t number = 0;
  for (std::int64_t i = 0; i < count; i++) {
    questions.push(number);
    number = answers.value_pop();
  }
  questions.close();
  partner.join();
  return number;
}

// From as many senders to as many receivers. The result is what the receivers count.
template <typename Channel>
static std::int64_t messages(Channel &channel, std::int64_t pairs, std::int64_t count) {
  std::int64_t received = 0;
  std::vector<fib::fiber> senders, receivers;
  for (std::int64_t pair = 0; pair < pairs; pair++) {
    senders.push_back(post([&channel, count, pairs] {
      for (std::int64_t i = 0; i < count / pairs; i++) channel.push(i);
    }));
    receivers.push_back(post([&channel, &received] {
      for (std::int64_t number : channel) {
        (void)number;
        received++;
      }
    }));
  }
  for (fib::fiber &sender : senders) sender.join();
  channel.close();
  for (fib::fiber &receiver : receivers) receiver.join();
  return received;
}

template <std::int64_t pairs>
static std::int64_t unbuffered(std::int64_t count) {
  Unbuffered channel;
  return messages(channel, pairs, count);
}

// The capacity must be a power of two, and the channel holds one less: 127, not 100.
template <std::int64_t pairs>
static std::int64_t buffered(std::int64_t count) {
  Buffered channel(128);
  return messages(channel, pairs, count);
}

static std::int64_t lock(std::int64_t count) {
  fib::mutex mutex;
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < count; i++) {
    std::lock_guard<fib::mutex> guard(mutex);
    sum++;
  }
  return sum;
}

static std::int64_t lock_by_four(std::int64_t count) {
  fib::mutex mutex;
  std::int64_t sum = 0;
  std::vector<fib::fiber> four;
  for (int i = 0; i < 4; i++) {
    four.push_back(post([&, count] {
      for (std::int64_t j = 0; j < count / 4; j++) {
        std::lock_guard<fib::mutex> guard(mutex);
        sum++;
        boost::this_fiber::yield();
      }
    }));
  }
  for (fib::fiber &fiber : four) fiber.join();
  return sum;
}

static std::int64_t sleep_all(std::int64_t count) {
  std::int64_t woken = 0;
  std::vector<fib::fiber> fibers;
  fibers.reserve(count);
  for (std::int64_t i = 0; i < count; i++) {
    fibers.push_back(post([&woken] {
      boost::this_fiber::sleep_for(std::chrono::milliseconds(10));
      woken++;
    }));
  }
  for (fib::fiber &fiber : fibers) fiber.join();
  return woken;
}

// A tree of fibers, with ten below each, except for the leaves.
static void skynet_node(std::int64_t first, std::int64_t leaves, Unbuffered &results) {
  if (leaves == 1) {
    results.push(first);
    return;
  }
  Unbuffered below;
  for (std::int64_t part = 0; part < 10; part++) {
    post([=, &below] { skynet_node(first + part * (leaves / 10), leaves / 10, below); }).detach();
  }
  std::int64_t sum = 0;
  for (int part = 0; part < 10; part++) sum += below.value_pop();
  results.push(sum);
}

static std::int64_t skynet(std::int64_t leaves) {
  Unbuffered results;
  post([&] { skynet_node(0, leaves, results); }).detach();
  return results.value_pop();
}

static std::int64_t sum_of_tree(std::int64_t first, std::int64_t leaves) {
  if (leaves == 1) return first;
  std::int64_t sums[10];
  std::vector<fib::fiber> parts;
  parts.reserve(10);
  for (std::int64_t part = 0; part < 10; part++) {
    parts.push_back(post([=, &sums] { sums[part] = sum_of_tree(first + part * (leaves / 10), leaves / 10); }));
  }
  std::int64_t sum = 0;
  for (std::int64_t part = 0; part < 10; part++) {
    parts[part].join();
    sum += sums[part];
  }
  return sum;
}

static std::int64_t skynet_by_joins(std::int64_t leaves) { return sum_of_tree(0, leaves); }

static Reading suspended(std::int64_t count) {
  fib::fixedsize_stack stacks(16 << 10);
  Unbuffered nobody_sends;
  std::int64_t begun = 0;
  std::vector<fib::fiber> fibers;
  fibers.reserve(count);
  const std::int64_t before = memory();
  Stopwatch watch;
  for (std::int64_t i = 0; i < count; i++) {
    fibers.emplace_back(fib::launch::post, std::allocator_arg, stacks, [&] {
      begun++;
      std::int64_t number;
      (void)nobody_sends.pop(number);
    });
  }
  while (begun < count) boost::this_fiber::yield();
  const std::int64_t time = watch.nanoseconds();
  const std::int64_t grown = memory() - before;
  nobody_sends.close();
  for (fib::fiber &fiber : fibers) fiber.join();
  return Reading{time, begun, grown};
}

int main() {
  Loops loops = {
      {"yield, one turn of two\tBoost.Fiber, this_fiber::yield", timed(take_turns)},
      {"spawn and join, one at a time\tBoost.Fiber, post and join", timed(spawn_one<fib::launch::post>)},
      {"spawn and join, one at a time\tBoost.Fiber, dispatch and join", timed(spawn_one<fib::launch::dispatch>)},
      {"spawn 10,000, join all; one of them\tBoost.Fiber, post, then join", timed(spawn_many)},
      {"rendezvous, round trip over two channels\tBoost.Fiber, unbuffered_channel", timed(round_trips)},
      {"channel without a buffer, 1 to 1, one message\tBoost.Fiber, unbuffered_channel", timed(unbuffered<1>)},
      {"channel without a buffer, 4 to 4, one message\tBoost.Fiber, unbuffered_channel", timed(unbuffered<4>)},
      {"channel with a buffer of 100, 1 to 1, one message\tBoost.Fiber, buffered_channel", timed(buffered<1>)},
      {"channel with a buffer of 100, 4 to 4, one message\tBoost.Fiber, buffered_channel", timed(buffered<4>)},
      {"mutex, uncontended\tBoost.Fiber, fibers::mutex", timed(lock)},
      {"mutex, wanted by four that yield inside\tBoost.Fiber, fibers::mutex", timed(lock_by_four)},
      {"100,000 timers of 10 ms, all of them\tBoost.Fiber, sleep_for", timed(sleep_all)},
      {"100,000 timers of 10 ms in a new process, one of them\tBoost.Fiber, sleep_for", timed(sleep_all)},
      {"skynet of 100,000 over channels, all of it\tBoost.Fiber, unbuffered_channel", timed(skynet)},
      {"skynet of 100,000 over channels in a new process, one leaf\tBoost.Fiber, unbuffered_channel", timed(skynet)},
      {"skynet of a million, all of it\tBoost.Fiber, post, then join", timed(skynet_by_joins)},
      {"skynet of a million in a new process, one leaf\tBoost.Fiber, post, then join", timed(skynet_by_joins)},
  };
  for (const char *count : {"1,000", "10,000", "100,000", "1,000,000"}) {
    loops[std::string(count) +
          " created and suspended, one of them\tBoost.Fiber, unbuffered_channel, 16 KiB without guards"] = suspended;
  }
  return serve(loops);
}
