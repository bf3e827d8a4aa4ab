// For tests: what tools and files of other machines said, kept in tests/hardware.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace quern::inventory_testing {

inline const std::filesystem::path kSamples = std::filesystem::path(QUERN_TEST_DATA) / "hardware";

inline std::string sample(const std::string& name) {
  std::ifstream file(kSamples / (name + ".txt"), std::ios::binary);
  EXPECT_TRUE(file.good()) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace quern::inventory_testing
