#include "base/json.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/status.h"

namespace quern {
namespace {

// Keys count too. A value takes up to 64 bytes of memory, and as few as two of text.
constexpr size_t kValuesMax = size_t{1} << 22;

// nlohmann's message without its library prefix, on one short line: it quotes what it read last.
std::string short_reason(const char* what) {
  constexpr size_t kBytesMax = 200;
  std::string reason = what;
  if (const size_t end = reason.find("] "); reason.starts_with('[') && end != std::string::npos) {
    reason.erase(0, end + 2);
  }
  // Not UTF-8, a cut character or a control character would spoil the line.
  std::ranges::replace_if(reason, [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
  if (reason.size() > kBytesMax) reason = reason.substr(0, kBytesMax / 2) + " … " + reason.substr(reason.size() - 60);
  return reason;
}

using Member = std::pair<std::string, Json>;

// nlohmann's own way to add a member searches through all that are there; this looks for duplicates once, at the end.
Json make_object(std::vector<Member>& members) {
  std::vector<size_t> by_key(members.size());
  std::iota(by_key.begin(), by_key.end(), size_t{0});
  std::stable_sort(by_key.begin(), by_key.end(),
                   [&](size_t a, size_t b) { return members[a].first < members[b].first; });
  std::vector<bool> dropped(members.size());
  size_t num_dropped = 0;
  for (size_t i = 1, first = 0; i < by_key.size(); ++i) {
    if (members[by_key[i]].first != members[by_key[first]].first) {
      first = i;
      continue;
    }
    members[by_key[first]].second = std::move(members[by_key[i]].second);
    dropped[by_key[i]] = true;
    ++num_dropped;
  }
  Json object = Json::object();
  Json::object_t::Container& target = object.get_ref<Json::object_t&>();
  target.reserve(members.size() - num_dropped);
  for (size_t i = 0; i < members.size(); ++i) {
    if (!dropped[i]) target.emplace_back(std::move(members[i]));
  }
  return object;
}

// Builds the tree from the parser's events; nlohmann calls it without recursion. Every event returns false to stop.
class Builder final : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(const JsonLimits& limits) : limits_(limits) {}
  Json take_root() { return std::move(root_); }
  const std::string& reason() const { return reason_; }

  bool null() override { return add(Json(nullptr)); }
  bool boolean(bool value) override { return add(Json(value)); }
  bool number_integer(number_integer_t value) override { return add(Json(value)); }
  bool number_unsigned(number_unsigned_t value) override { return add(Json(value)); }
  bool number_float(number_float_t value, const string_t&) override { return add(Json(value)); }
  bool string(string_t& text) override { return add(Json(std::move(text))); }
  bool binary(binary_t&) override { return stop("not JSON: bytes"); }
  bool start_object(size_t) override { return open(true); }
  bool start_array(size_t) override { return open(false); }
  bool key(string_t& key) override {
    open_.back().members.emplace_back(std::move(key), Json());
    return count();
  }
  bool end_object() override {
    Json object = make_object(open_.back().members);
    open_.pop_back();
    place(std::move(object));
    return true;
  }
  bool end_array() override {
    Json array = std::move(open_.back().items);
    open_.pop_back();
    place(std::move(array));
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) override {
    return stop("not JSON: " + short_reason(error.what()));
  }

 private:
  // An array or object whose end has not come yet.
  struct Open {
    bool is_object = false;
    Json::array_t items;
    std::vector<Member> members;  // the last one's value is yet to come, or open
  };

  bool stop(std::string reason) {
    if (reason_.empty()) reason_ = std::move(reason);
    return false;
  }
  bool count() { return ++num_values_ <= kValuesMax || stop(fmt::format("JSON of more than {} values", kValuesMax)); }
  bool open(bool is_object) {
    if (open_.size() == limits_.depth_max) return stop(fmt::format("JSON nested deeper than {}", limits_.depth_max));
    open_.push_back({.is_object = is_object, .items = {}, .members = {}});
    return count();
  }
  bool add(Json value) {
    place(std::move(value));
    return count();
  }
  void place(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (open_.back().is_object) {
      open_.back().members.back().second = std::move(value);
    } else {
      open_.back().items.push_back(std::move(value));
    }
  }

  JsonLimits limits_;
  Json root_;
  std::vector<Open> open_;
  size_t num_values_ = 0;
  std::string reason_;
};

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view what, const JsonLimits& limits) {
  if (text.size() > limits.bytes_max) {
    return invalid_argument(
        fmt::format("{}: JSON of {} bytes is over the limit of {}", what, text.size(), limits.bytes_max));
  }
  // nlohmann takes NUL for the end of the text and would not see what follows.
  if (const size_t at = text.find('\0'); at != std::string_view::npos) {
    return invalid_argument(fmt::format("{}: not JSON: a NUL at byte {}", what, at));
  }
  Builder builder(limits);
  try {
    if (Json::sax_parse(text, &builder)) return builder.take_root();
  } catch (const Json::exception& error) {
    return invalid_argument(fmt::format("{}: not JSON: {}", what, short_reason(error.what())));
  }
  return invalid_argument(fmt::format("{}: {}", what, builder.reason()));
}

std::string dump_json(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace quern
