// SPDX-License-Identifier: Apache-2.0

// C++20's coroutines. They have no stacks, so only the coroutine's own outermost function can suspend.

#include <coroutine>
#include <exception>
#include <utility>

#include "serve.hpp"

// A generator as the language's own `co_yield` makes it. The library has one from C++23 on.
class Generator {
 public:
  struct promise_type {
    std::int64_t number = 0;

    Generator get_return_object() { return Generator(Handle::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    std::suspend_always yield_value(std::int64_t yielded) noexcept {
      number = yielded;
      return {};
    }
    void return_void() noexcept {}
    void unhandled_exception() { std::terminate(); }
  };
  using Handle = std::coroutine_handle<promise_type>;

  explicit Generator(Handle handle) : handle_(handle) {}
  Generator(Generator &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Generator &operator=(Generator &&) = delete;
  ~Generator() {
    if (handle_) handle_.destroy();
  }

  // Whether there is another number. If so, `number` is that.
  bool next() {
    handle_.resume();
    return !handle_.done();
  }
  std::int64_t number() const { return handle_.promise().number; }

 private:
  Handle handle_;
};

// Not inlined: otherwise the compiler would remove the coroutine, and leave a loop.
__attribute__((noinline)) static Generator numbers(std::int64_t count) {
  for (std::int64_t i = 0; i < count; i++) co_yield i;
}

// Each level has a generator of its own, which yields what those below it yield.
static Generator walk(const Node *node) {
  if (node->left != nullptr) {
    for (Generator below = walk(node->left); below.next();) co_yield below.number();
  }
  co_yield node->number;
  if (node->right != nullptr) {
    for (Generator below = walk(node->right); below.next();) co_yield below.number();
  }
}

static std::int64_t create(std::int64_t count) {
  std::int64_t made = 0;
  for (std::int64_t i = 0; i < count; i++) {
    Generator one = numbers(1);
    if (one.next()) made++;
  }
  return made;
}

static std::int64_t generate(std::int64_t count) {
  std::int64_t sum = 0;
  for (Generator generator = numbers(count); generator.next();) sum += generator.number();
  return sum;
}

static std::int64_t walk_trees(std::int64_t count) {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < count / million; i++) {
    for (Generator nodes = walk(tree()); nodes.next();) sum += nodes.number();
  }
  return sum;
}

int main() {
  Loops loops = {
      {"create, run and destroy, one coroutine\tC++20 generator", timed(create)},
      {"generator, Int\tC++20 generator", timed(generate)},
      {"tree walk of a million nodes, one node\tC++20 generators, one a level", timed(walk_trees)},
  };
  for (const auto &[count, workload] : turns) {
    loops[workload + "C++20 generators"] = in_turn<Generator>(
        count, [] { return numbers(INT64_MAX); },
        [](Generator &generator) { return generator.next() ? generator.number() : -1; });
  }
  return serve(loops);
}
