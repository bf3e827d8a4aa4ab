#include "formats/safetensors/header.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/status.h"
#include "formats/printable.h"

namespace quern {
namespace {

using nlohmann::json;

// Common part of both handlers: keeps the first reason for stopping. Every event returns false to stop the parser.
class Events : public nlohmann::json_sax<json> {
 public:
  const std::string& reason() const { return reason_; }

  bool null() override { return refuse("null"); }
  bool boolean(bool) override { return refuse("a bool"); }
  bool number_integer(number_integer_t value) override { return refuse(fmt::format("the number {}", value)); }
  bool number_unsigned(number_unsigned_t value) override { return refuse(fmt::format("the number {}", value)); }
  bool number_float(number_float_t, const string_t& text) override { return refuse("the number " + text); }
  bool string(string_t& text) override { return refuse("the string " + printable(text)); }
  bool binary(binary_t&) override { return refuse("bytes"); }
  bool start_object(size_t) override { return refuse("an object"); }
  bool start_array(size_t) override { return refuse("an array"); }
  bool end_object() override { return true; }
  bool end_array() override { return true; }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return stop(fmt::format("not JSON at byte {}", position));
  }

 protected:
  bool stop(std::string reason) {
    if (reason_.empty()) reason_ = std::move(reason);
    return false;
  }
  virtual std::string place() const = 0;  // where in the document, for messages
  bool refuse(std::string_view found) { return stop(fmt::format("{} may not be {}", place(), found)); }

 private:
  std::string reason_;
};

class HeaderEvents final : public Events {
 public:
  SafetensorsHeader header;

  bool start_object(size_t) override {
    switch (state_) {
      case State::kOutside: state_ = State::kTop; return true;
      case State::kTopValue: return enter_member();
      default: return refuse("an object");
    }
  }
  bool key(string_t& key) override {
    key_ = key;
    switch (state_) {
      case State::kTop: state_ = State::kTopValue; return true;
      case State::kMetadata: state_ = State::kMetadataValue; return true;
      default: return tensor_key();
    }
  }
  bool string(string_t& text) override {
    if (state_ == State::kMetadataValue) {
      state_ = State::kMetadata;
      if (header.metadata.emplace(key_, text).second) return true;
      return stop(fmt::format("__metadata__ has {} twice", printable(key_)));
    }
    if (state_ != State::kDType) return Events::string(text);
    const auto dtype = dtype_from_safetensors(text);
    if (!dtype) return stop(fmt::format("tensor {}: unknown dtype {}", printable(entry().name), printable(text)));
    entry().dtype = *dtype;
    state_ = State::kTensor;
    return true;
  }
  bool start_array(size_t) override {
    if (state_ == State::kShape || state_ == State::kOffsets) {
      state_ = state_ == State::kShape ? State::kShapeItems : State::kOffsetItems;
      return true;
    }
    return refuse("an array");
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (state_ == State::kShapeItems) {
      if (entry().shape.size() == kMaxDims)
        return stop(fmt::format("{} has more than {} dimensions", place(), kMaxDims));
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return Events::number_unsigned(value);
      entry().shape.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (state_ == State::kOffsetItems) {
      if (num_offsets_ == 2) return stop(fmt::format("{} has more than two numbers", place()));
      (num_offsets_++ == 0 ? entry().begin : entry().end) = value;
      return true;
    }
    return Events::number_unsigned(value);
  }
  bool end_array() override {
    if (state_ == State::kOffsetItems && num_offsets_ != 2) return stop(fmt::format("{} has not two numbers", place()));
    state_ = State::kTensor;
    return true;
  }
  bool end_object() override {
    if (state_ == State::kTensor && (!has_dtype_ || !has_shape_ || !has_offsets_)) {
      return stop(fmt::format("tensor {} lacks dtype, shape or data_offsets", printable(entry().name)));
    }
    state_ = state_ == State::kTop ? State::kOutside : State::kTop;
    return true;
  }

 private:
  // A state named for a field waits for its value; …Items is inside its array.
  enum class State {
    kOutside,
    kTop,
    kTopValue,
    kMetadata,
    kMetadataValue,
    kTensor,
    kDType,
    kShape,
    kShapeItems,
    kOffsets,
    kOffsetItems
  };

  SafetensorsEntry& entry() { return header.entries.back(); }

  bool enter_member() {
    if (key_ == "__metadata__") {
      if (has_metadata_) return stop("__metadata__ occurs twice");
      has_metadata_ = true;
      state_ = State::kMetadata;
      return true;
    }
    header.entries.push_back({.name = key_});
    has_dtype_ = has_shape_ = has_offsets_ = false;
    num_offsets_ = 0;
    state_ = State::kTensor;
    return true;
  }
  bool tensor_key() {
    bool* seen = nullptr;
    if (key_ == "dtype") state_ = State::kDType, seen = &has_dtype_;
    if (key_ == "shape") state_ = State::kShape, seen = &has_shape_;
    if (key_ == "data_offsets") state_ = State::kOffsets, seen = &has_offsets_;
    if (seen == nullptr)
      return stop(fmt::format("tensor {}: unknown field {}", printable(entry().name), printable(key_)));
    if (*seen) return stop(fmt::format("tensor {}: field {} occurs twice", printable(entry().name), key_));
    *seen = true;
    return true;
  }
  std::string place() const override {
    switch (state_) {
      case State::kOutside:
      case State::kTop: return "the header";
      case State::kTopValue: return printable(key_);
      case State::kMetadata:
      case State::kMetadataValue: return fmt::format("__metadata__ {}", printable(key_));
      default: return fmt::format("{} of tensor {}", key_, printable(header.entries.back().name));
    }
  }

  State state_ = State::kOutside;
  std::string key_;
  bool has_metadata_ = false;
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false;  // of the last entry
  int num_offsets_ = 0;
};

class IndexEvents final : public Events {
 public:
  static constexpr size_t kDepthMax = 16;  // of the members that are skipped
  std::vector<std::pair<std::string, std::string>> weight_map;
  bool has_weight_map = false;

  bool null() override { return scalar("null"); }
  bool boolean(bool) override { return scalar("a bool"); }
  bool number_integer(number_integer_t) override { return scalar("a number"); }
  bool number_unsigned(number_unsigned_t) override { return scalar("a number"); }
  bool number_float(number_float_t, const string_t&) override { return scalar("a number"); }
  bool string(string_t& text) override {
    if (!in_weight_map_ || depth_ != 2) return scalar("a string");
    weight_map.emplace_back(key_, std::move(text));
    return true;
  }
  bool key(string_t& key) override {
    key_ = key;
    return true;
  }
  bool start_object(size_t) override {
    if (in_weight_map_) return refuse("an object");
    if (depth_ == 1 && key_ == "weight_map") {
      if (has_weight_map) return stop("weight_map occurs twice");
      in_weight_map_ = has_weight_map = true;
    }
    return enter();
  }
  bool end_object() override {
    if (--depth_ == 1) in_weight_map_ = false;
    return true;
  }
  bool start_array(size_t) override {
    if (in_weight_map_ || depth_ == 0) return refuse("an array");
    return enter();
  }
  bool end_array() override {
    --depth_;
    return true;
  }

 private:
  bool enter() { return ++depth_ <= kDepthMax || stop(fmt::format("JSON nested deeper than {}", kDepthMax)); }
  bool scalar(std::string_view kind) {
    const bool skipped = depth_ > 0 && !in_weight_map_ && !(depth_ == 1 && key_ == "weight_map");
    return skipped || refuse(kind);
  }
  std::string place() const override {
    return in_weight_map_ ? fmt::format("weight_map entry {}", printable(key_))
           : depth_ == 0  ? "the index"
                          : printable(key_);
  }

  size_t depth_ = 0;
  bool in_weight_map_ = false;
  std::string key_;
};

Status run(std::string_view text, Events& events, std::string_view name, std::string_view what) {
  // nlohmann takes NUL for the end of the text and would not see what follows.
  if (const size_t at = text.find('\0'); at != std::string_view::npos) {
    return invalid_file(fmt::format("{}: {}: not JSON: a NUL at byte {}", name, what, at));
  }
  try {
    if (json::sax_parse(text.begin(), text.end(), &events)) return {};
  } catch (const json::exception&) {
    return invalid_file(fmt::format("{}: {}: not JSON", name, what));
  }
  return invalid_file(fmt::format("{}: {}: {}", name, what, events.reason()));
}

}  // namespace

Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, std::string_view name) {
  HeaderEvents events;
  QUERN_TRY(run(json, events, name, "header"));
  return std::move(events.header);
}

Result<std::vector<std::pair<std::string, std::string>>> parse_safetensors_index(std::string_view json,
                                                                                 std::string_view name) {
  IndexEvents events;
  QUERN_TRY(run(json, events, name, "index"));
  if (!events.has_weight_map) return invalid_file(fmt::format("{}: index: weight_map is missing", name));
  return std::move(events.weight_map);
}

}  // namespace quern
