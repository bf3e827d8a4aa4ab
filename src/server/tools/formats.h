// The parsers of the formats: one file each.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/tools/json_scanner.h"
#include "server/tools/output_parser.h"

namespace quern::tools {

constexpr size_t kHeadMax = 400;  // bytes before a call's arguments; what is longer was no call

std::unique_ptr<OutputParser> make_hermes_parser(std::vector<std::string> names);
std::unique_ptr<OutputParser> make_llama3_json_parser(std::vector<std::string> names);
std::unique_ptr<OutputParser> make_mistral_parser(std::vector<std::string> names);
std::unique_ptr<OutputParser> make_deepseek_parser(std::vector<std::string> names);
std::unique_ptr<OutputParser> make_harmony_parser(std::vector<std::string> names);
std::unique_ptr<OutputParser> make_pythonic_parser(std::vector<std::string> names);
std::unique_ptr<OutputParser> make_json_parser(std::vector<std::string> names, std::vector<std::string> tags);

}  // namespace quern::tools
