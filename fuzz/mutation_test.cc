// Seeded damage to every golden file, through everything that reads it. Needs no fuzzing compiler.
//
//   QUERN_MUTATIONS=N        times the usual number of mutations
//   QUERN_MUTATION_SEED=S    other random numbers
//   QUERN_MUTATION_REPLAY="TARGET SEED_FILE NUMBER"   one mutation, as a failure names it
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <sstream>

#include "mutations.h"
#include "seeds.h"
#include "targets.h"

namespace quern::fuzz {
namespace {

constexpr unsigned kSecondsMax = 20;
char current[512];  // what a crash says: the three words of QUERN_MUTATION_REPLAY

void on_crash(int signal) {
  constexpr char kHead[] = "\nmutation_test: stopped by a signal; QUERN_MUTATION_REPLAY=\"";
  for (const auto& [text, size] :
       {std::pair<const char*, size_t>{kHead, sizeof(kHead) - 1}, {current, std::strlen(current)}, {"\"\n", 2}}) {
    if (write(STDERR_FILENO, text, size) < 0) break;
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// Sanitizers reserve more addresses than any limit and report crashes themselves.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

void prepare() {
  for (const int signal : {SIGABRT, SIGALRM}) std::signal(signal, on_crash);
  if (kSanitized) return;
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(signal, on_crash);
  mallopt(M_ARENA_MAX, 2);  // an arena a thread would take most of the addresses
  const rlimit memory = {uint64_t{2} << 30, uint64_t{2} << 30};
  setrlimit(RLIMIT_AS, &memory);
}

uint64_t environment_number(const char* name, uint64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

// A file of few kilobytes gets as many as it asks for; one with real tensors costs more each.
uint64_t mutations_of(const Target& target, const Seed& seed) {
  uint64_t count = 200;
  if (target.name == "names") count = 2000;
  if (target.name == "gguf" || target.name == "folder_config" || target.name == "folder_weights") count = 60;
  if (target.name.starts_with("http_")) count = 100;
  if (target.name == "schema" || target.name == "grammar") count = 15;
  if (target.name == "tokenizer" || target.name == "gguf_split") count = 100;
  if (seed.bytes.size() < 8192) count *= 2;
  return count * environment_number("QUERN_MUTATIONS", 1) / (kSanitized ? 10 : 1);
}

void run_one(const Target& target, const Seed& seed, uint64_t number) {
  std::snprintf(current, sizeof(current), "%.*s %s %llu", static_cast<int>(target.name.size()), target.name.data(),
                seed.name.c_str(), static_cast<unsigned long long>(number));
  const std::string input = Mutator(number).mutate(seed.bytes);
  alarm(kSecondsMax);
  try {
    target.run(input);
  } catch (const std::exception& error) {
    ADD_FAILURE() << "an exception: " << error.what() << "\nQUERN_MUTATION_REPLAY=\"" << current << "\"";
  }
  alarm(0);
}

class Mutations : public ::testing::TestWithParam<Target> {};

TEST_P(Mutations, DoNoHarm) {
  const Target& target = GetParam();
  std::string replay_target, replay_seed;
  uint64_t replay_number = 0;
  const char* replay = std::getenv("QUERN_MUTATION_REPLAY");
  if (replay != nullptr) std::istringstream(replay) >> replay_target >> replay_seed >> replay_number;
  const uint64_t base = environment_number("QUERN_MUTATION_SEED", 1) << 32;
  for (const Seed& seed : seeds_of(target.name)) {
    if (replay != nullptr) {
      if (target.name == replay_target && seed.name == replay_seed) run_one(target, seed, replay_number);
      continue;
    }
    target.run(seed.bytes);
    const uint64_t count = mutations_of(target, seed);
    for (uint64_t i = 0; i < count && !HasFailure(); ++i) run_one(target, seed, base + i);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Mutations, ::testing::ValuesIn(targets().begin(), targets().end()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Seeds, RequestsOfEveryDialectAreAnswered) {
  for (const Target& target : targets()) {
    if (!target.name.starts_with("http_")) continue;
    for (const Seed& seed : seeds_of(target.name)) {
      target.run(seed.bytes);
      EXPECT_EQ(last_http_status(), 200) << target.name << " " << seed.name;
    }
  }
}

TEST(Mutator, SameSeedSameDamage) {
  const std::string bytes(1000, 'a');
  EXPECT_EQ(Mutator(7).mutate(bytes), Mutator(7).mutate(bytes));
  int same = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) same += Mutator(seed).mutate(bytes) == bytes ? 1 : 0;
  EXPECT_LT(same, 10);
}

}  // namespace
}  // namespace quern::fuzz

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  quern::fuzz::prepare();
  return RUN_ALL_TESTS();
}
