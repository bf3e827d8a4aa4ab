// The parsers of the formats: one file each.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/tools/output_parser.h"

namespace quern::tools {

std::unique_ptr<OutputParser> make_hermes_parser(std::vector<std::string> names);
std::unique_ptr<OutputParser> make_llama3_json_parser(std::vector<std::string> names);
std::unique_ptr<OutputParser> make_mistral_parser(std::vector<std::string> names);
std::unique_ptr<OutputParser> make_deepseek_parser(std::vector<std::string> names);
std::unique_ptr<OutputParser> make_harmony_parser(std::vector<std::string> names);
std::unique_ptr<OutputParser> make_pythonic_parser(std::vector<std::string> names);
std::unique_ptr<OutputParser> make_json_parser(std::vector<std::string> names, std::vector<std::string> tags);

inline bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

}  // namespace quern::tools
