#include "server/tools/call_reader.h"

#include <utility>

#include "base/json.h"

namespace quern::tools {
namespace {

std::optional<std::string> json_string(const std::string& text) {
  const auto value = parse_json(text, "value");
  if (!value || !value->is_string()) return std::nullopt;
  return value->get<std::string>();
}

}  // namespace

CallReader::Step CallReader::feed(char c, OutputDeltas& out) {
  if (!told_) raw_ += c;
  const Step result = step(c, out);
  if (result == Step::kNoCall && told_) return Step::kBroken;
  return result;
}

CallReader::Step CallReader::step(char c, OutputDeltas& out) {
  switch (state_) {
    case State::kOpen:
      if (c != '{') return Step::kNoCall;
      state_ = State::kFirstKey;
      return Step::kMore;
    case State::kFirstKey:
    case State::kKey:
      if (is_blank(c)) return Step::kMore;
      if (c != '"') return Step::kNoCall;
      key_.clear();
      state_ = State::kKeyText;
      return Step::kMore;
    case State::kKeyText:
      if (c == '"') {
        state_ = State::kColon;
        return begin_value() ? Step::kMore : Step::kNoCall;
      }
      key_ += c;
      return key_.size() > 16 ? Step::kNoCall : Step::kMore;
    case State::kColon:
      if (is_blank(c)) return Step::kMore;
      if (c != ':') return Step::kNoCall;
      state_ = State::kValue;
      return Step::kMore;
    case State::kValue: return value(c, out);
    case State::kNext:
      if (is_blank(c)) return Step::kMore;
      if (c == ',') {
        state_ = State::kKey;
        return Step::kMore;
      }
      if (c != '}') return Step::kNoCall;
      return close(out) ? Step::kDone : Step::kNoCall;
  }
  return Step::kNoCall;
}

bool CallReader::may_be_call() const {
  if (name_) return true;
  constexpr std::string_view kType = "\"function\"";
  switch (state_) {
    case State::kOpen:
    case State::kFirstKey: return true;
    case State::kKeyText:
      return std::string_view("name").starts_with(key_) || std::string_view("type").starts_with(key_);
    case State::kColon: return key_ == "name" || key_ == "type";
    case State::kValue:
      if (key_ == "name") return value_.empty() || sink_->may_name(std::string_view(value_).substr(1));
      return key_ == "type" && kType.starts_with(value_);
    case State::kKey:
    case State::kNext: return key_ == "type" && value_ == kType;
  }
  return false;
}

bool CallReader::begin_value() {
  const bool is_name = key_ == "name", is_arguments = key_ == "arguments" || key_ == "parameters";
  if ((is_name && name_) || (is_arguments && arguments_)) return false;
  scanner_ = JsonScanner();
  value_.clear();
  streaming_ = false;
  return is_name || is_arguments || key_ == "id" || key_ == "type";
}

void CallReader::tell(OutputDeltas& out) {
  told_ = true;
  sink_->call(*name_, out);
}

CallReader::Step CallReader::value(char c, OutputDeltas& out) {
  if (value_.empty() && is_blank(c)) return Step::kMore;
  const bool is_first = value_.empty();
  const size_t before = value_.size();
  const JsonScanner::Step scanned = scanner_.feed(c, value_);
  if (scanned == JsonScanner::Step::kBad) return Step::kNoCall;
  if (is_first && c == '{' && name_ && (key_ == "arguments" || key_ == "parameters")) {
    tell(out);
    streaming_ = true;
  }
  if (streaming_) {
    held_ += std::string_view(value_).substr(before);
    if (!scanner_.in_escape()) sink_->arguments(std::exchange(held_, {}), out);
  }
  if (scanned == JsonScanner::Step::kMore) return Step::kMore;
  if (!end_value()) return Step::kNoCall;
  state_ = State::kNext;
  return scanned == JsonScanner::Step::kBefore ? step(c, out) : Step::kMore;
}

bool CallReader::end_value() {
  if (key_ == "name") {
    name_ = json_string(value_);
    return name_ && sink_->knows(*name_);
  }
  if (key_ != "arguments" && key_ != "parameters") return true;
  if (value_ == "null") value_ = "{}";
  // Some models write the arguments as a string that holds JSON.
  if (value_.starts_with('"')) value_ = json_string(value_).value_or("");
  const auto parsed = streaming_ ? Result<Json>(Json::object()) : parse_json(value_, "arguments");
  if (!parsed || !parsed->is_object()) return false;
  arguments_ = std::move(value_);
  return true;
}

bool CallReader::close(OutputDeltas& out) {
  if (told_) return true;
  if (!name_) return false;
  tell(out);
  sink_->arguments(arguments_.value_or("{}"), out);
  return true;
}

CallReader::Step ArgumentsReader::feed(char c, OutputDeltas& out) {
  if (!told_) raw_ += c;
  if (!scanner_.started() && is_blank(c)) return CallReader::Step::kMore;
  if (!told_) {
    if (c != '{') return CallReader::Step::kNoCall;
    sink_->call(name_, out);
    told_ = true;
  }
  const JsonScanner::Step scanned = scanner_.feed(c, held_);
  if (scanned == JsonScanner::Step::kBad) return CallReader::Step::kBroken;
  if (!scanner_.in_escape()) sink_->arguments(std::exchange(held_, {}), out);
  return scanned == JsonScanner::Step::kDone ? CallReader::Step::kDone : CallReader::Step::kMore;
}

}  // namespace quern::tools
