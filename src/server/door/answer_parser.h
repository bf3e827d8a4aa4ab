// A worker's answer as it comes off the wire: Beast's parser, told where to put what it finds. Internal to the door.
#pragma once

#include <boost/beast/http/basic_parser.hpp>
#include <string>

#include "server/http/message.h"

namespace quern::door {

struct AnswerHead {
  int status = 0;
  http::Headers headers;  // names in lower case
  bool chunked = false;

  std::string_view header(std::string_view lower_case_name) const;  // empty when absent
};

class AnswerParser final : public boost::beast::http::basic_parser<false> {
 public:
  AnswerParser();

  AnswerHead head;
  std::string body;  // what came since somebody took it

 private:
  using Text = boost::beast::string_view;
  using Error = boost::beast::error_code;
  using Verb = boost::beast::http::verb;
  using Field = boost::beast::http::field;

  void on_request_impl(Verb, Text, Text, int, Error&) override {}
  void on_response_impl(int code, Text, int, Error&) override { head.status = code; }
  void on_field_impl(Field, Text name, Text value, Error&) override;
  void on_header_impl(Error&) override { head.chunked = chunked(); }
  void on_body_init_impl(const boost::optional<std::uint64_t>&, Error&) override {}
  size_t on_body_impl(Text bytes, Error& error) override;
  void on_chunk_header_impl(std::uint64_t, Text, Error&) override {}
  size_t on_chunk_body_impl(std::uint64_t, Text bytes, Error& error) override { return on_body_impl(bytes, error); }
  void on_finish_impl(Error&) override {}
};

}  // namespace quern::door
