#include "engine/answer_text.h"

#include <gtest/gtest.h>

namespace quern {
namespace {

struct Seen {
  std::string text;
  std::string stop;
};

// Pushes `text` in pieces of `size` bytes; after each piece what is out must be a beginning of what comes out in the
// end.
Seen run(const std::vector<std::string>& stops, const std::string& text, size_t size) {
  StopMatcher matcher(std::make_shared<std::vector<std::string>>(stops));
  Seen seen;
  for (size_t i = 0; i < text.size() && matcher.matched() == nullptr; i += size)
    matcher.push(text.substr(i, size), seen.text);
  if (matcher.matched() != nullptr) {
    seen.stop = *matcher.matched();
  } else {
    matcher.flush(seen.text);
  }
  return seen;
}

TEST(StopMatcher, TextEndsBeforeTheStopHoweverItIsCut) {
  for (size_t size = 1; size < 12; ++size) {
    EXPECT_EQ(run({"World"}, "Hello World again", size).text, "Hello ");
    EXPECT_EQ(run({"World"}, "Hello World again", size).stop, "World");
    EXPECT_EQ(run({"aab"}, "aaaaabaab", size).text, "aaa");
    EXPECT_EQ(run({"H"}, "Hello", size).text, "");
    EXPECT_EQ(run({"none"}, "nonono no", size).text, "nonono no");
    EXPECT_EQ(run({"none"}, "nonono no", size).stop, "");
    EXPECT_EQ(run({"\xC3\xA9"}, "caf\xC3\xA8 caf\xC3\xA9!", size).text, "caf\xC3\xA8 caf");
  }
}

TEST(StopMatcher, EarliestStartWins) {
  EXPECT_EQ(run({"lo", "ell"}, "hello", 5).stop, "ell");
  EXPECT_EQ(run({"lo", "ell"}, "hello", 5).text, "h");
  EXPECT_EQ(run({"o w", "wo"}, "hello world", 1).text, "hell");
}

TEST(StopMatcher, HoldsOnlyWhatCanStillGrow) {
  StopMatcher matcher(std::make_shared<std::vector<std::string>>(std::vector<std::string>{"\n\nUser:", "END"}));
  std::string text;
  matcher.push("one\n", text);
  EXPECT_EQ(text, "one");
  matcher.push("two", text);
  EXPECT_EQ(text, "one\ntwo");
  matcher.push(" EN", text);
  EXPECT_EQ(text, "one\ntwo ");
  matcher.push("D", text);
  EXPECT_EQ(text, "one\ntwo ");
  EXPECT_EQ(*matcher.matched(), "END");
}

}  // namespace
}  // namespace quern
