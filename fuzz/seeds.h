// Well-formed inputs to start from, and the broken ones of tests/golden.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace quern::fuzz {

struct Seed {
  std::string name;
  std::string bytes;
};
std::vector<Seed> seeds_of(std::string_view target);

// Model folders with config.json and model.safetensors, sorted: at most 256, all small.
const std::vector<std::filesystem::path>& golden_folders();

// The golden folder of that name.
std::filesystem::path golden_model(std::string_view name);

std::string read_file(const std::filesystem::path& path);

}  // namespace quern::fuzz
