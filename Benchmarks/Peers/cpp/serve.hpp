// What the peers in C++ share. They read requests from the standard input, one per line: `run`, the workload's name,
// the system's, a number of operations, separated by tabs. The answer is the time in nanoseconds, what the loop
// computed, and, where memory is measured, by how many bytes the process grew.
#pragma once

#include <chrono>
#include <cstdint>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

struct Reading {
  std::int64_t nanoseconds;
  std::int64_t computed;
  std::int64_t bytes = -1;
};

using Loop = std::function<Reading(std::int64_t operations)>;
// By the workload's name and the system's, as in the request.
using Loops = std::map<std::string, Loop>;

class Stopwatch {
 public:
  std::int64_t nanoseconds() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// A loop that is timed as a whole.
template <typename Work>
Loop timed(Work work) {
  return [work](std::int64_t operations) {
    Stopwatch watch;
    const std::int64_t computed = work(operations);
    return Reading{watch.nanoseconds(), computed};
  };
}

// The memory that the process has, page tables included.
inline std::int64_t memory() {
  std::ifstream status("/proc/self/status");
  std::int64_t kibibytes = 0;
  for (std::string line; std::getline(status, line);) {
    std::istringstream words(line);
    std::string name;
    std::int64_t number;
    if (words >> name >> number && (name == "VmRSS:" || name == "VmPTE:")) kibibytes += number;
  }
  return kibibytes << 10;
}

inline std::string answer(const Loops &loops, const std::string &request) {
  std::vector<std::string> words;
  std::istringstream rest(request);
  for (std::string word; std::getline(rest, word, '\t');) words.push_back(word);
  if (words.size() != 4 || words[0] != "run") return "error\tnot a request to run";
  const auto loop = loops.find(words[1] + "\t" + words[2]);
  if (loop == loops.end()) return "error\tdoes not know " + words[1] + ", " + words[2];
  const Reading reading = loop->second(std::stoll(words[3]));
  std::string text = std::to_string(reading.nanoseconds) + "\t" + std::to_string(reading.computed);
  if (reading.bytes >= 0) text += "\t" + std::to_string(reading.bytes);
  return text;
}

inline int serve(const Loops &loops) {
  for (std::string request; std::getline(std::cin, request);) std::cout << answer(loops, request) << std::endl;
  return 0;
}

// A binary tree, numbered from left to right, in the order of its nodes in memory.
struct Node {
  std::int64_t number;
  Node *left, *right;
};

constexpr std::int64_t million = (1 << 20) - 1;

inline Node *make_tree(Node *&free, std::int64_t count, std::int64_t first) {
  if (count == 0) return nullptr;
  Node *node = free++;
  const std::int64_t below = (count - 1) / 2;
  node->number = first + below;
  node->left = make_tree(free, below, first);
  node->right = make_tree(free, count - 1 - below, first + below + 1);
  return node;
}

// A complete tree of a million nodes, which lives as long as the program.
inline Node *tree() {
  static std::vector<Node> nodes(million);
  static Node *root = [] {
    Node *free = nodes.data();
    return make_tree(free, million, 0);
  }();
  return root;
}

// Many sources that are all suspended, each asked for one element in turn. The result is the number of rounds with
// the right sum. All of them count from 0, and go on from where they were in the run before.
template <typename Source, typename Make, typename Next>
Loop in_turn(std::size_t count, Make make, Next next) {
  struct State {
    std::vector<Source> sources;
    std::int64_t yielded = 0;
  };
  auto state = std::make_shared<State>();
  return timed([=](std::int64_t operations) {
    if (state->sources.empty()) {
      state->sources.reserve(count);
      for (std::size_t i = 0; i < count; i++) state->sources.push_back(make());
    }
    std::int64_t right = 0;
    for (std::int64_t round = 0; round < operations / static_cast<std::int64_t>(count); round++) {
      std::int64_t sum = 0;
      for (auto &source : state->sources) sum += next(source);
      if (sum == state->yielded * static_cast<std::int64_t>(count)) right++;
      state->yielded++;
    }
    return right;
  });
}

// The names of the workloads, by the number of sources in turn.
inline const std::vector<std::pair<std::size_t, std::string>> turns = {
    {1, "one generator, one step\t"},
    {1'000, "1000 generators in turn, one step\t"},
    {60'000, "60000 generators in turn, one step\t"},
};
