#include "sched/planner.h"

#include <gtest/gtest.h>

#include <map>

namespace quern {
namespace {

constexpr int32_t kBlock = 4;
const BlockGroups kGroups{.block_size = kBlock};

PlannerSequence sequence(int64_t id, int32_t computed, int32_t target, int32_t blocks) {
  return {.id = id, .computed = computed, .target = target, .blocks = blocks, .arrival = id};
}
PlannerSequence decoding(int64_t id, int32_t computed) {
  return sequence(id, computed, computed + 1, (computed + kBlock - 1) / kBlock);
}
std::map<int64_t, int32_t> tokens_of(const Plan& plan) {
  std::map<int64_t, int32_t> tokens;
  int32_t total = 0;
  for (const PlannedChunk& chunk : plan.chunks) {
    EXPECT_GE(chunk.tokens, 1);
    EXPECT_TRUE(tokens.emplace(chunk.id, chunk.tokens).second);
    total += chunk.tokens;
  }
  EXPECT_EQ(total, plan.total_tokens);
  return tokens;
}
using Tokens = std::map<int64_t, int32_t>;

TEST(Planner, NothingToDo) {
  const Plan plan = make_plan({}, {}, {}, 10, kGroups);
  EXPECT_TRUE(plan.chunks.empty());
  EXPECT_TRUE(plan.preempted.empty());
  EXPECT_EQ(plan.total_tokens, 0);
}

TEST(Planner, DecodesGetTheirTokenBeforeAnEarlierLongPrompt) {
  const std::vector running{sequence(1, 0, 100, 0), decoding(2, 5), decoding(3, 8)};
  const Plan plan = make_plan({.max_num_batched_tokens = 16}, running, {}, 100, kGroups);
  EXPECT_EQ(tokens_of(plan), (Tokens{{1, 14}, {2, 1}, {3, 1}}));
  ASSERT_EQ(plan.chunks.size(), 3u);
  EXPECT_EQ(plan.chunks[0].id, 1) << "running order is kept";
  EXPECT_EQ(plan.chunks[0].new_blocks, 4);
  EXPECT_EQ(plan.chunks[1].new_blocks, 0);
  EXPECT_EQ(plan.chunks[2].new_blocks, 1);
}

TEST(Planner, LongPrefillLimitLeavesRoomForOthers) {
  const PlannerOptions options{.max_num_batched_tokens = 32, .long_prefill_tokens_max = 8};
  const std::vector running{sequence(1, 0, 100, 0), sequence(2, 0, 100, 0), decoding(3, 5)};
  EXPECT_EQ(tokens_of(make_plan(options, running, {}, 100, kGroups)), (Tokens{{1, 8}, {2, 8}, {3, 1}}));
  const std::vector alone{sequence(1, 0, 100, 0)};
  EXPECT_EQ(tokens_of(make_plan(options, alone, {}, 100, kGroups)), (Tokens{{1, 32}}));
}

TEST(Planner, PromptsLeaveRunningStreamsTheirPace) {
  const PlannerOptions options{.max_num_batched_tokens = 64, .mixed_prefill_tokens_max = 10};
  const std::vector running{decoding(1, 5), sequence(2, 0, 40, 0), sequence(3, 0, 40, 0)};
  const std::vector waiting{sequence(4, 0, 10, 0), decoding(5, 8)};
  EXPECT_EQ(tokens_of(make_plan(options, running, {}, 100, kGroups)), (Tokens{{1, 1}, {2, 10}}));
  EXPECT_EQ(tokens_of(make_plan(options, running, waiting, 100, kGroups)), (Tokens{{1, 1}, {2, 10}}))
      << "nobody is overtaken";
  const std::vector nobody_decodes{sequence(2, 0, 40, 0), sequence(3, 0, 40, 0)};
  EXPECT_EQ(tokens_of(make_plan(options, nobody_decodes, {}, 100, kGroups)), (Tokens{{2, 40}, {3, 24}}));
  const std::vector stream{decoding(1, 5)};
  EXPECT_EQ(tokens_of(make_plan(options, stream, waiting, 100, kGroups)), (Tokens{{1, 1}, {4, 10}, {5, 1}}))
      << "what needs one token only is no prompt any more";
}

TEST(Planner, FewPromptsShareAStepWhenToldSo) {
  const PlannerOptions options{.max_num_batched_tokens = 64, .max_num_partial_prefills = 1};
  const std::vector running{sequence(1, 0, 20, 0), sequence(2, 0, 20, 0), decoding(3, 4)};
  EXPECT_EQ(tokens_of(make_plan(options, running, {}, 100, kGroups)), (Tokens{{1, 20}, {3, 1}}));
}

TEST(Planner, AChunkOfLimitedSize) {
  std::vector running{sequence(1, 0, 20, 0), sequence(2, 0, 20, 0)};
  running[0].chunk_max = 3;
  EXPECT_EQ(tokens_of(make_plan({}, running, {}, 100, kGroups)), (Tokens{{1, 3}, {2, 20}}));
}

TEST(Planner, DraftsTakeWhatDecodesLeaveAndPreemptNobody) {
  std::vector running{decoding(1, 7), decoding(2, 8), sequence(3, 0, 30, 0)};
  running[0].draft = 6;
  const Plan plenty = make_plan({.max_num_batched_tokens = 16}, running, {}, 100, kGroups);
  EXPECT_EQ(tokens_of(plenty), (Tokens{{1, 7}, {2, 1}, {3, 8}}));
  EXPECT_EQ(plenty.chunks[0].new_blocks, 2) << "positions 7 to 13 with two blocks there";
  EXPECT_EQ(tokens_of(make_plan({.max_num_batched_tokens = 4}, running, {}, 100, kGroups)), (Tokens{{1, 3}, {2, 1}}));
  running.pop_back();
  // Sequence 2 needs the only free block; the draft ends where its own block ends.
  const Plan scarce = make_plan({.max_num_batched_tokens = 16}, running, {}, 1, kGroups);
  EXPECT_EQ(tokens_of(scarce), (Tokens{{1, 1}, {2, 1}}));
  EXPECT_TRUE(scarce.preempted.empty());
}

TEST(Planner, AdmitsInOrderWhileBudgetSeatsAndBlocksAllow) {
  const std::vector waiting{sequence(1, 0, 10, 0), sequence(2, 0, 10, 0), sequence(3, 0, 4, 0)};
  EXPECT_EQ(tokens_of(make_plan({.max_num_batched_tokens = 15}, {}, waiting, 100, kGroups)), (Tokens{{1, 10}, {2, 5}}));
  EXPECT_EQ(tokens_of(make_plan({.max_num_seqs = 2}, {}, waiting, 100, kGroups)), (Tokens{{1, 10}, {2, 10}}));
  // 3 blocks each and one to spare for those before: the second needs 4 of the 3 left, and nobody overtakes it.
  EXPECT_EQ(tokens_of(make_plan({}, {}, waiting, 6, kGroups)), (Tokens{{1, 10}}));
  EXPECT_EQ(tokens_of(make_plan({}, {}, waiting, 7, kGroups)), (Tokens{{1, 10}, {2, 10}}));
}

TEST(Planner, AdmissionCountsWhatRunningPromptsStillLack) {
  const std::vector running{sequence(1, 0, 40, 0)};
  const std::vector waiting{sequence(2, 0, 4, 0)};
  const PlannerOptions options{.max_num_batched_tokens = 20, .long_prefill_tokens_max = 8};
  EXPECT_EQ(tokens_of(make_plan(options, running, waiting, 11, kGroups)), (Tokens{{1, 8}}));
  EXPECT_EQ(tokens_of(make_plan(options, running, waiting, 12, kGroups)), (Tokens{{1, 8}, {2, 4}}));
}

TEST(Planner, PrefixHitTakesCachedBlocksOutOfTheFreeOnes) {
  PlannerSequence hit = sequence(1, 8, 12, 2);
  EXPECT_EQ(tokens_of(make_plan({}, {}, std::vector{hit}, 3, kGroups)), (Tokens{{1, 4}}));
  EXPECT_EQ(tokens_of(make_plan({}, {}, std::vector{hit}, 2, kGroups)), Tokens{});
  hit.exclusive_blocks = 0;  // somebody else holds them
  const Plan plan = make_plan({}, {}, std::vector{hit}, 1, kGroups);
  EXPECT_EQ(tokens_of(plan), (Tokens{{1, 4}}));
  EXPECT_EQ(plan.chunks[0].new_blocks, 1);
}

TEST(Planner, PreemptsTheLatestWhenARunningSequenceHasNoBlock) {
  const std::vector running{decoding(1, 8), decoding(2, 6), decoding(3, 7)};
  const std::vector waiting{sequence(9, 0, 1, 0)};
  const Plan plan = make_plan({}, running, waiting, 0, kGroups);
  EXPECT_EQ(plan.preempted, std::vector<int64_t>{3});
  EXPECT_EQ(tokens_of(plan), (Tokens{{1, 1}, {2, 1}})) << "and nothing is admitted";
}

TEST(Planner, PreemptsByPriorityBeforeArrival) {
  std::vector running{decoding(1, 6), decoding(2, 8), decoding(3, 6)};
  running[0].priority = 5;
  const Plan plan = make_plan({}, running, {}, 0, kGroups);
  EXPECT_EQ(plan.preempted, std::vector<int64_t>{1});
  EXPECT_EQ(tokens_of(plan), (Tokens{{2, 1}, {3, 1}})) << "the chunk already given to the victim is taken back";
}

TEST(Planner, TheLeastImportantWaitsInPlace) {
  const std::vector running{decoding(1, 6), decoding(2, 8)};
  const Plan plan = make_plan({}, running, {}, 0, kGroups);
  EXPECT_TRUE(plan.preempted.empty());
  EXPECT_EQ(tokens_of(plan), (Tokens{{1, 1}}));
}

TEST(Planner, NeverPreemptsTheOnlyOne) {
  const Plan plan = make_plan({}, std::vector{decoding(1, 8)}, {}, 0, kGroups);
  EXPECT_TRUE(plan.preempted.empty());
  EXPECT_TRUE(plan.chunks.empty());
}

TEST(Planner, SharedBlocksAreNotCountedAsGivenBack) {
  std::vector running{decoding(1, 8), decoding(2, 8), decoding(3, 8)};
  for (auto& s : running) s.exclusive_blocks = 0;
  const Plan plan = make_plan({}, running, {}, 0, kGroups);
  EXPECT_EQ(plan.preempted, (std::vector<int64_t>{2, 3}));
  EXPECT_TRUE(plan.chunks.empty()) << "the true number of free blocks is known in the next step";
}

TEST(Planner, PromptTakesTheBlocksThereAreBeforePreempting) {
  const std::vector running{sequence(1, 0, 40, 0), decoding(2, 5)};
  const Plan plan = make_plan({}, running, {}, 3, kGroups);
  EXPECT_EQ(tokens_of(plan), (Tokens{{1, 12}, {2, 1}}));
  EXPECT_TRUE(plan.preempted.empty());
}

TEST(Planner, MoreDecodesThanBudgetGoInOrder) {
  const std::vector running{decoding(1, 5), decoding(2, 5), decoding(3, 5)};
  EXPECT_EQ(tokens_of(make_plan({.max_num_batched_tokens = 2}, running, {}, 9, kGroups)), (Tokens{{1, 1}, {2, 1}}));
}

TEST(Planner, ASpanTakesABlockOfEachGroup) {
  const BlockGroups groups{.block_size = kBlock, .windows = {0, 8, 8}};
  const std::vector running{decoding(1, 8), sequence(2, 0, 40, 0)};
  const Plan plan = make_plan({.max_num_batched_tokens = 64}, running, {}, 11, groups);
  EXPECT_EQ(tokens_of(plan), (Tokens{{1, 1}, {2, 8}})) << "three blocks for the decode, two spans of three behind it";
  EXPECT_EQ(plan.chunks[0].new_blocks, 3);
  EXPECT_EQ(plan.chunks[1].new_blocks, 6);
  std::vector guessing{decoding(1, 8)};
  guessing[0].draft = 6;
  EXPECT_EQ(tokens_of(make_plan({}, guessing, {}, 5, groups)), (Tokens{{1, 4}}));
  EXPECT_EQ(tokens_of(make_plan({}, guessing, {}, 6, groups)), (Tokens{{1, 7}}));
  const std::vector crowd{decoding(1, 8), decoding(2, 6)};
  EXPECT_EQ(make_plan({}, crowd, {}, 2, groups).preempted, std::vector<int64_t>{2});
}

TEST(Planner, AdmissionCountsAWindowOnce) {
  const PlannerOptions options{.max_num_batched_tokens = 4};
  const std::vector running{decoding(1, 6)};
  const std::vector waiting{sequence(2, 0, 400, 0)};
  const BlockGroups full{.block_size = kBlock};
  const BlockGroups window{.block_size = kBlock, .windows = {8}};
  EXPECT_EQ(window_blocks(8, 4, kBlock), 4);
  // What the window needs at its fullest, and one to spare for the running one.
  EXPECT_EQ(tokens_of(make_plan(options, running, waiting, 4, window)), (Tokens{{1, 1}}));
  EXPECT_EQ(tokens_of(make_plan(options, running, waiting, 5, window)), (Tokens{{1, 1}, {2, 3}}));
  EXPECT_EQ(tokens_of(make_plan(options, running, waiting, 100, full)), (Tokens{{1, 1}}));
  EXPECT_EQ(tokens_of(make_plan(options, running, waiting, 101, full)), (Tokens{{1, 1}, {2, 3}}));
}

TEST(BlockGroups, PeakIsAllOfTheFullOnesAndTheWindowsOfTheOthers) {
  const BlockGroups groups{.windows = {0, 40, 40}};
  EXPECT_EQ(peak_blocks({}, 160, 64), 10);
  EXPECT_EQ(peak_blocks({}, 161, 64), 11);
  EXPECT_EQ(peak_blocks(groups, 30, 16), 3 * 2) << "shorter than the window";
  EXPECT_EQ(window_blocks(40, 1, 16), 4) << "40 positions in blocks of 16";
  EXPECT_EQ(window_blocks(1, 1, 16), 1);
  EXPECT_EQ(window_blocks(16, 2, 16), 2) << "17 positions fill one block and touch another";
  EXPECT_EQ(window_blocks(16, 3, 16), 3);
  EXPECT_EQ(peak_blocks(groups, 1600, 1), 100 + 2 * 4);
  for (int64_t blocks : {0, 2, 3, 50, 108, 109, 1000}) {
    const int64_t tokens = tokens_that_fit(groups, blocks, 16, 5000);
    EXPECT_LE(peak_blocks(groups, tokens, 16), blocks);
    if (tokens < 5000) {
      EXPECT_GT(peak_blocks(groups, tokens + 1, 16), blocks);
    }
  }
}

TEST(Planner, IsPure) {
  const std::vector running{sequence(1, 3, 90, 1), decoding(2, 8), decoding(3, 6)};
  const std::vector waiting{sequence(4, 0, 10, 0)};
  const Plan a = make_plan({}, running, waiting, 7, kGroups);
  const Plan b = make_plan({}, running, waiting, 7, kGroups);
  EXPECT_EQ(tokens_of(a), tokens_of(b));
  EXPECT_EQ(a.preempted, b.preempted);
}

}  // namespace
}  // namespace quern
