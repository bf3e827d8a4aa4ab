#include "server/http/parse.h"

#include <cctype>
#include <random>

#include "fmt/format.h"
#include "server/http/percent.h"

namespace quern::http {
namespace {

std::string make_id() {
  thread_local std::mt19937_64 generator{std::random_device{}()};
  return fmt::format("{:016x}", generator());
}

// A request id from outside goes into headers and logs: letters, digits and -_. only, and not endless.
bool is_sane_id(std::string_view id) {
  if (id.empty() || id.size() > 128) return false;
  for (const char c : id) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '_' && c != '.') return false;
  }
  return true;
}

std::vector<std::pair<std::string, std::string>> parse_query(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> pairs;
  while (!text.empty()) {
    const size_t end = std::min(text.find('&'), text.size());
    const std::string_view part = text.substr(0, end);
    const size_t equals = std::min(part.find('='), part.size());
    pairs.emplace_back(percent_decode(part.substr(0, equals), true),
                       percent_decode(part.substr(std::min(equals + 1, part.size())), true));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return pairs;
}

}  // namespace

Request to_request(boost::beast::http::request<boost::beast::http::string_body>&& message) {
  Request request;
  request.method = std::string(message.method_string());
  const std::string_view target(message.target().data(), message.target().size());
  const size_t question = std::min(target.find('?'), target.size());
  request.path = percent_decode(target.substr(0, question), false);
  request.query = parse_query(target.substr(std::min(question + 1, target.size())));
  for (const auto& field : message) {
    std::string name(field.name_string());
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    request.headers.emplace_back(std::move(name), std::string(field.value()));
  }
  request.body = std::move(message.body());
  const auto id = request.header("x-request-id");
  request.id = id && is_sane_id(*id) ? std::string(*id) : make_id();
  return request;
}

std::string_view target_in(std::string_view bytes) {
  bytes.remove_prefix(std::min(bytes.find_first_not_of("\r\n"), bytes.size()));
  const std::string_view line = bytes.substr(0, bytes.find_first_of("\r\n"));
  const size_t blank = line.find(' ');
  if (blank == std::string_view::npos) return {};
  const std::string_view target = line.substr(blank + 1);
  return target.starts_with('/') ? target.substr(0, target.find(' ')) : std::string_view();
}

}  // namespace quern::http
