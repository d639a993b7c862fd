// SPDX-License-Identifier: Apache-2.0

// Boost.Context's fibers, and Boost.Coroutine2's coroutines, which are made of them.

#include <boost/context/fiber.hpp>
#include <boost/context/pooled_fixedsize_stack.hpp>
#include <boost/coroutine2/all.hpp>
#include <utility>

#include "serve.hpp"

namespace ctx = boost::context;
using Pull = boost::coroutines2::coroutine<std::int64_t>::pull_type;
using Push = boost::coroutines2::coroutine<std::int64_t>::push_type;

constexpr std::size_t stack_size = 64 << 10;
// Stacks that are used again, as in the runtime's pool.
static ctx::pooled_fixedsize_stack pooled_stacks(stack_size);

// A fiber that yields numbers through a variable, since a switch carries none.
class Counting {
 public:
  Counting()
      : word_(std::make_unique<std::int64_t>(0)),
        fiber_(std::allocator_arg, ctx::fixedsize_stack(stack_size), [word = word_.get()](ctx::fiber &&caller) {
          for (;; ++*word) caller = std::move(caller).resume();
          return std::move(caller);
        }) {}

  std::int64_t next() {
    fiber_ = std::move(fiber_).resume();
    return *word_;
  }

 private:
  std::unique_ptr<std::int64_t> word_;
  ctx::fiber fiber_;
};

// One operation is a switch, half a round trip.
static std::int64_t switch_fibers(std::int64_t switches) {
  std::int64_t word = 0;
  ctx::fiber partner(std::allocator_arg, pooled_stacks, [&word](ctx::fiber &&caller) {
    for (;;) {
      word++;
      caller = std::move(caller).resume();
    }
    return std::move(caller);
  });
  for (std::int64_t i = 0; i < switches / 2; i++) partner = std::move(partner).resume();
  return word;
}

static std::int64_t switch_coroutines(std::int64_t switches) {
  std::int64_t word = 0;
  boost::coroutines2::coroutine<void>::pull_type partner(
      ctx::fixedsize_stack(stack_size), [&word](boost::coroutines2::coroutine<void>::push_type &yield) {
        for (;;) {
          word++;
          yield();
        }
      });
  // The coroutine has already run to its first yield.
  for (std::int64_t i = 1; i < switches / 2; i++) partner();
  return word;
}

static std::int64_t create_fibers(std::int64_t count) {
  std::int64_t made = 0;
  for (std::int64_t i = 0; i < count; i++) {
    ctx::fiber fiber(std::allocator_arg, pooled_stacks, [&made](ctx::fiber &&caller) {
      made++;
      return std::move(caller);
    });
    fiber = std::move(fiber).resume();
  }
  return made;
}

static std::int64_t create_coroutines(std::int64_t count) {
  std::int64_t made = 0;
  for (std::int64_t i = 0; i < count; i++) {
    Pull coroutine(pooled_stacks, [](Push &yield) { yield(1); });
    made += coroutine.get();
  }
  return made;
}

static std::int64_t generate_by_fiber(std::int64_t count) {
  Counting counting;
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < count; i++) sum += counting.next();
  return sum;
}

static std::int64_t generate_by_coroutine(std::int64_t count) {
  Pull numbers([count](Push &yield) {
    for (std::int64_t i = 0; i < count; i++) yield(i);
  });
  std::int64_t sum = 0;
  for (std::int64_t number : numbers) sum += number;
  return sum;
}

static void walk(const Node *node, Push &yield) {
  if (node == nullptr) return;
  walk(node->left, yield);
  yield(node->number);
  walk(node->right, yield);
}

static std::int64_t walk_trees(std::int64_t count) {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < count / million; i++) {
    Pull numbers([](Push &yield) { walk(tree(), yield); });
    for (std::int64_t number : numbers) sum += number;
  }
  return sum;
}

// A coroutine that counts, and whether its first element was taken: it runs to its first yield when it is made.
struct CountingCoroutine {
  Pull numbers;
  bool asked = false;
};

int main() {
  Loops loops = {
      {"switch, one way\tboost::context::fiber", timed(switch_fibers)},
      {"switch, one way\tboost::coroutines2", timed(switch_coroutines)},
      {"create, run and destroy, one coroutine\tboost::context::fiber, pooled stack", timed(create_fibers)},
      {"create, run and destroy, one coroutine\tboost::coroutines2, pooled stack", timed(create_coroutines)},
      {"generator, Int\tboost::context::fiber", timed(generate_by_fiber)},
      {"generator, Int\tboost::coroutines2", timed(generate_by_coroutine)},
      {"tree walk of a million nodes, one node\tboost::coroutines2", timed(walk_trees)},
  };
  for (const auto &[count, workload] : turns) {
    loops[workload + "boost::context::fiber"] = in_turn<Counting>(
        count, [] { return Counting(); }, [](Counting &counting) { return counting.next(); });
    loops[workload + "boost::coroutines2"] = in_turn<CountingCoroutine>(
        count,
        [] {
          return CountingCoroutine{Pull(ctx::fixedsize_stack(stack_size), [](Push &yield) {
            for (std::int64_t number = 0;; number++) yield(number);
          })};
        },
        [](CountingCoroutine &counting) {
          if (std::exchange(counting.asked, true)) counting.numbers();
          return counting.numbers.get();
        });
  }
  return serve(loops);
}
