// The seeded simulator of planner, block pool and block tables.
//   sim_test [--histories N] [--first-seed S]    runs N histories from seed S on
//   sim_test --fresh [--histories N]             the same from a seed of the system's entropy
//   sim_test --seed S                            replays one history, printing every plan
#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <random>

#include "world.h"

namespace {

std::atomic<uint64_t> current_seed{0};

extern "C" void print_seed_on_abort(int) {
  std::fprintf(stderr, "seed %llu: aborted; replay with --seed %llu\n",
               static_cast<unsigned long long>(current_seed.load()),
               static_cast<unsigned long long>(current_seed.load()));
}

bool run_history(uint64_t seed, bool trace, quern::sim::Counts& counts) {
  current_seed = seed;
  quern::sim::World world(seed, trace);
  const quern::Status status = world.run();
  counts.add(world.counts());
  if (status) return true;
  std::fprintf(stderr, "seed %llu: %s; replay with --seed %llu\n", static_cast<unsigned long long>(seed),
               status.error().message.c_str(), static_cast<unsigned long long>(seed));
  return false;
}

// A simulator in which something never happens tests nothing of it.
bool everything_happened(const quern::sim::Counts& counts) {
  return counts.finished > 0 && counts.cancelled > 0 && counts.preempted > 0 && counts.forked > 0 &&
         counts.copied > 0 && counts.hit_tokens > 0 && counts.window_freed > 0 && counts.guessed_right > 0 &&
         counts.guessed > counts.guessed_right && counts.mixed_hit_tokens > 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Seeded simulator of planner, block pool and block tables", "sim_test"};
  uint64_t first_seed = 1, histories = 12000, seed = 0;
  app.add_option("--first-seed", first_seed, "seed of the first history")->capture_default_str();
  app.add_option("--histories", histories, "how many")->capture_default_str();
  bool fresh = false;
  app.add_flag("--fresh", fresh, "take the first seed from the system");
  const auto* replay = app.add_option("--seed", seed, "replay this history and print its plans");
  CLI11_PARSE(app, argc, argv);
  std::signal(SIGABRT, print_seed_on_abort);

  quern::sim::Counts counts;
  if (!replay->empty()) return run_history(seed, /*trace=*/true, counts) ? 0 : 1;
  if (fresh) first_seed = std::random_device{}();
  std::printf("seeds %llu … %llu\n", static_cast<unsigned long long>(first_seed),
              static_cast<unsigned long long>(first_seed + histories - 1));
  for (uint64_t i = 0; i < histories; ++i) {
    if (!run_history(first_seed + i, /*trace=*/false, counts)) return 1;
  }
  std::printf(
      "%lld steps, %lld tokens, %lld finished, %lld cancelled, %lld preempted, %lld forked, %lld blocks copied, "
      "%lld tokens hit, %lld blocks freed behind a window, %lld of %lld guesses right\n",
      static_cast<long long>(counts.steps), static_cast<long long>(counts.tokens),
      static_cast<long long>(counts.finished), static_cast<long long>(counts.cancelled),
      static_cast<long long>(counts.preempted), static_cast<long long>(counts.forked),
      static_cast<long long>(counts.copied), static_cast<long long>(counts.hit_tokens),
      static_cast<long long>(counts.window_freed), static_cast<long long>(counts.guessed_right),
      static_cast<long long>(counts.guessed));
  if (histories >= 1000 && !everything_happened(counts)) {
    std::fprintf(stderr, "something never happened\n");
    return 1;
  }
  return 0;
}
