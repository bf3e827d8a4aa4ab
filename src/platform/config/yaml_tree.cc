#include "platform/config/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <exception>
#include <map>
#include <optional>
#include <sstream>

#include "base/status.h"
#include "formats/printable.h"

namespace quern {
namespace {

// Leaves yaml-cpp's parser; caught below, never seen outside.
struct Refusal {
  int32_t line;
  std::string reason;
};

int32_t line_of(const YAML::Mark& mark) {
  return mark.line + 1;
}

int32_t count_nodes(const YamlNode& node) {
  int32_t count = 1;
  for (const YamlNode& item : node.items) count += count_nodes(item);
  for (const auto& [key, value] : node.entries) count += 1 + count_nodes(value);
  return count;
}

int32_t depth_of(const YamlNode& node) {
  int32_t deepest = 0;
  for (const YamlNode& item : node.items) deepest = std::max(deepest, depth_of(item));
  for (const auto& [key, value] : node.entries) deepest = std::max(deepest, depth_of(value));
  return node.kind == YamlKind::kList || node.kind == YamlKind::kMap ? deepest + 1 : 0;
}

class TreeBuilder final : public YAML::EventHandler {
 public:
  YamlNode take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& /*mark*/) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add({.kind = YamlKind::kNull, .line = line_of(mark)}, anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_tag(mark, tag);
    if (value.size() > kYamlScalarBytesMax) {
      throw Refusal{line_of(mark), fmt::format("a value of more than {} bytes", kYamlScalarBytesMax)};
    }
    add({.kind = YamlKind::kScalar, .line = line_of(mark), .text = value}, anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) throw Refusal{line_of(mark), "an alias stands inside what it stands for"};
    const int32_t depth = static_cast<int32_t>(open_.size()) + depth_of(found->second);
    if (depth > kYamlDepthMax) throw too_deep(line_of(mark));
    // The copy's own node is counted by add().
    count(line_of(mark), count_nodes(found->second) - 1);
    YamlNode copy = found->second;
    add(std::move(copy), YAML::NullAnchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    open(YamlKind::kList, mark, tag, anchor);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    open(YamlKind::kMap, mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    YamlNode node;
    YAML::anchor_t anchor;
    std::optional<std::string> key;  // read, and its value is not
    int32_t key_line = 0;
  };

  static Refusal too_deep(int32_t line) { return {line, fmt::format("more than {} levels deep", kYamlDepthMax)}; }

  static void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    // "?": none was written; "!": quotes stand for one.
    if (tag.empty() || tag == "?" || tag == "!") return;
    throw Refusal{line_of(mark), fmt::format("the tag {} is not supported", printable(tag))};
  }

  void count(int32_t line, int32_t nodes) {
    if (nodes > kYamlNodesMax - nodes_) throw Refusal{line, fmt::format("more than {} values", kYamlNodesMax)};
    nodes_ += nodes;
  }

  void open(YamlKind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    refuse_tag(mark, tag);
    if (open_.size() >= static_cast<size_t>(kYamlDepthMax)) throw too_deep(line_of(mark));
    open_.push_back({{.kind = kind, .line = line_of(mark)}, anchor, std::nullopt});
  }

  void close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    add(std::move(done.node), done.anchor);
  }

  void add(YamlNode node, YAML::anchor_t anchor) {
    count(node.line, 1);
    if (anchor != YAML::NullAnchor) anchors_[anchor] = node;
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.node.kind == YamlKind::kList) {
      parent.node.items.push_back(std::move(node));
    } else if (!parent.key) {
      if (node.kind != YamlKind::kScalar) throw Refusal{node.line, "a key must be plain text"};
      if (parent.node.find(node.text) != nullptr) {
        throw Refusal{node.line, fmt::format("the key {} stands twice", printable(node.text))};
      }
      parent.key_line = node.line;
      parent.key = std::move(node.text);
    } else {
      node.key_line = parent.key_line;
      parent.node.entries.emplace_back(std::move(*parent.key), std::move(node));
      parent.key.reset();
    }
  }

  YamlNode root_{.kind = YamlKind::kMap, .line = 1};
  std::vector<Open> open_;
  std::map<YAML::anchor_t, YamlNode> anchors_;
  int32_t nodes_ = 0;
};

std::unexpected<Error> at_line(int32_t line, std::string_view reason) {
  return invalid_file(fmt::format("{}: {}", line, reason));
}

}  // namespace

const char* yaml_kind_name(YamlKind kind) {
  switch (kind) {
    case YamlKind::kNull: return "null";
    case YamlKind::kScalar: return "a value";
    case YamlKind::kList: return "a list";
    case YamlKind::kMap: break;
  }
  return "a map";
}

const YamlNode* YamlNode::find(std::string_view key) const {
  for (const auto& [name, value] : entries) {
    if (name == key) return &value;
  }
  return nullptr;
}

Result<YamlNode> read_yaml(std::string_view text) {
  if (text.size() > kYamlBytesMax) return at_line(1, fmt::format("more than {} bytes", kYamlBytesMax));
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
    const auto line = static_cast<int32_t>(1 + std::ranges::count(text.substr(0, zero), '\n'));
    return at_line(line, "a zero byte: this is no text");
  }
  TreeBuilder builder;
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) return builder.take();
    TreeBuilder second;
    if (parser.HandleNextDocument(second)) return at_line(1, "more than one document");
  } catch (const Refusal& refusal) {
    return at_line(refusal.line, refusal.reason);
  } catch (const YAML::Exception& error) {
    return at_line(std::max(error.mark.line, 0) + 1, error.msg);
  } catch (const std::exception& error) {
    return at_line(1, error.what());
  }
  YamlNode root = builder.take();
  if (root.kind == YamlKind::kNull) root.kind = YamlKind::kMap;
  return root;
}

}  // namespace quern
