#include "text/gbnf.h"

#include <algorithm>
#include <functional>
#include <map>

#include "base/status.h"
#include "text/gbnf_parser.h"
#include "text/grammar_parts.h"

namespace quern {
namespace {

using gbnf::Node;
using gbnf::Rule;

// Rules that reach themselves are Lark rules; all others are regular and become terminals.
class Writer {
 public:
  explicit Writer(const std::vector<Rule>& rules) : rules_(rules), recursive_(rules.size()), reach_(rules.size()) {
    for (size_t i = 0; i < rules.size(); ++i) index_[rules[i].name] = i;
  }

  Result<std::string> write() {
    const auto root = index_.find("root");
    if (root == index_.end()) return invalid_argument("GBNF: there is no rule 'root'");
    for (size_t i = 0; i < rules_.size(); ++i) QUERN_TRY(collect(rules_[i].body, reach_[i]));
    mark_recursive();
    lark_ = fmt::format("start: {}\n", rule_name(root->second));
    for (size_t i = 0; i < rules_.size(); ++i) {
      if (recursive_[i]) {
        const std::string body = rule_text(rules_[i].body);
        lark_ += fmt::format("{}: {}\n", rule_name(i), body);
      } else {
        lark_ += fmt::format("{}: {}\n", rule_name(i), terminal_text(rules_[i].body));
      }
    }
    return std::move(lark_);
  }

 private:
  std::string rule_name(size_t i) const { return fmt::format("{}{}", recursive_[i] ? "r" : "R", i); }

  Status collect(const Node& node, std::vector<size_t>& reached) const {
    if (node.kind == Node::Kind::kRule) {
      const auto found = index_.find(node.text);
      if (found == index_.end()) return invalid_argument(fmt::format("GBNF: rule '{}' is not defined", node.text));
      reached.push_back(found->second);
    }
    for (const Node& child : node.children) QUERN_TRY(collect(child, reached));
    return {};
  }

  // A rule is recursive when it can reach itself, or a rule that can.
  void mark_recursive() {
    std::vector<uint8_t> state(rules_.size());  // 0: new, 1: on the path, 2: done
    const std::function<bool(size_t)> visit = [&](size_t i) -> bool {
      if (state[i] == 1) return true;
      if (state[i] == 2) return recursive_[i];
      state[i] = 1;
      bool recursive = false;
      for (const size_t next : reach_[i]) recursive = visit(next) || recursive;
      state[i] = 2;
      recursive_[i] = recursive;
      return recursive;
    };
    for (size_t i = 0; i < rules_.size(); ++i) visit(i);
    // What was reached on the path of a cycle before the cycle was known.
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = 0; i < rules_.size(); ++i) {
        if (recursive_[i]) continue;
        for (const size_t next : reach_[i]) {
          if (recursive_[next]) recursive_[i] = changed = true;
        }
      }
    }
  }

  bool is_regular(const Node& node) const {
    if (node.kind == Node::Kind::kRule) return !recursive_[index_.at(node.text)];
    return std::ranges::all_of(node.children, [this](const Node& child) { return is_regular(child); });
  }

  static std::string class_text(const Node& node) {
    std::string text = node.negated ? "/[^" : "/[";
    for (const auto& [first, last] : node.ranges) text += fmt::format("\\x{{{:X}}}-\\x{{{:X}}}", first, last);
    return text + "]/";
  }

  static std::string repeat_text(const Node& node) {
    if (node.max < 0 && node.min < 2) return node.min == 0 ? "*" : "+";
    if (node.min == 0 && node.max == 1) return "?";
    return node.max < 0 ? fmt::format("{{{},}}", node.min) : fmt::format("{{{},{}}}", node.min, node.max);
  }

  // `write` renders the children.
  template <class Write>
  std::string node_text(const Node& node, const Write& write) const {
    switch (node.kind) {
      case Node::Kind::kLiteral: return lark_string(node.text);
      case Node::Kind::kClass: return class_text(node);
      case Node::Kind::kAny: return "/(?s:.)/";
      case Node::Kind::kRule: return rule_name(index_.at(node.text));
      case Node::Kind::kRepeat: return fmt::format("({}){}", write(node.children.front()), repeat_text(node));
      case Node::Kind::kSequence:
      case Node::Kind::kChoice: break;
    }
    if (node.children.empty()) return "\"\"";
    std::string text = "(";
    for (size_t i = 0; i < node.children.size(); ++i) {
      if (i > 0) text += node.kind == Node::Kind::kChoice ? " | " : " ";
      text += write(node.children[i]);
    }
    return text + ")";
  }

  std::string terminal_text(const Node& node) const {
    return node_text(node, [this](const Node& child) { return terminal_text(child); });
  }

  // Neighbours that are regular become one terminal: inside it no reading is lost to the longest match.
  std::string rule_text(const Node& node) {
    if (is_regular(node)) return new_terminal(terminal_text(node));
    if (node.kind != Node::Kind::kSequence) {
      return node_text(node, [this](const Node& child) { return rule_text(child); });
    }
    std::string text = "(";
    for (size_t i = 0; i < node.children.size();) {
      std::string run;
      for (; i < node.children.size() && is_regular(node.children[i]); ++i) {
        run += (run.empty() ? "" : " ") + terminal_text(node.children[i]);
      }
      if (!run.empty()) text += new_terminal(run) + " ";
      if (i < node.children.size()) text += rule_text(node.children[i++]) + " ";
    }
    text.back() = ')';
    return text;
  }

  std::string new_terminal(const std::string& text) {
    const std::string name = fmt::format("T{}", num_terminals_++);
    lark_ += fmt::format("{}: {}\n", name, text);
    return name;
  }

  const std::vector<Rule>& rules_;
  std::map<std::string, size_t> index_;
  std::vector<bool> recursive_;
  std::vector<std::vector<size_t>> reach_;
  size_t num_terminals_ = 0;
  std::string lark_;
};

}  // namespace

bool looks_like_gbnf(std::string_view text) {
  return text.find("::=") != std::string_view::npos;
}

Result<std::string> gbnf_to_lark(std::string_view text) {
  QUERN_ASSIGN(const std::vector<Rule> rules, gbnf::parse(text));
  return Writer(rules).write();
}

}  // namespace quern
