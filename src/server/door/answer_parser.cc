#include "server/door/answer_parser.h"

#include <cctype>

#include "server/http/server.h"

namespace quern::door {

std::string_view AnswerHead::header(std::string_view lower_case_name) const {
  for (const auto& [name, value] : headers) {
    if (name == lower_case_name) return value;
  }
  return {};
}

AnswerParser::AnswerParser() {
  header_limit(http::kHeaderBytesLimit);
  body_limit(boost::none);  // a body is passed on, not kept
  eager(true);
}

void AnswerParser::on_field_impl(Field, Text name, Text value, Error&) {
  std::string lower(name.data(), name.size());
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  head.headers.emplace_back(std::move(lower), std::string(value.data(), value.size()));
}

size_t AnswerParser::on_body_impl(Text bytes, Error&) {
  body.append(bytes.data(), bytes.size());
  return bytes.size();
}

}  // namespace quern::door
