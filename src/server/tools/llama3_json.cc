// Llama 3.1 and later: {"name": "f", "parameters": {…}} as the whole answer, perhaps behind <|python_tag|>.
#include "server/tools/formats.h"

namespace quern::tools {

std::unique_ptr<OutputParser> make_llama3_json_parser(std::vector<std::string> names) {
  return make_json_parser(std::move(names), {"<|python_tag|>"});
}

}  // namespace quern::tools
