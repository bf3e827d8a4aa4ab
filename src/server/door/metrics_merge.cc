#include "server/door/metrics_merge.h"

#include <algorithm>

#include "fmt/format.h"
#include "server/metrics/metrics.h"

namespace quern::door {
namespace {

constexpr std::string_view kEngines[] = {"vllm:", "sglang:", "llamacpp:"};
constexpr std::string_view kOwnLabel = "model_name=\"";

bool is_of_engine(std::string_view name) {
  return std::ranges::any_of(kEngines, [&](std::string_view prefix) { return name.starts_with(prefix); });
}

// "NAME" of "# TYPE NAME counter" and "# HELP NAME …"; empty for another comment.
std::string_view described(std::string_view line) {
  constexpr size_t kWord = 7;  // "# TYPE " and "# HELP "
  if (!line.starts_with("# TYPE ") && !line.starts_with("# HELP ")) return {};
  line.remove_prefix(kWord);
  return line.substr(0, line.find(' '));
}

// Where the quote that ends a label's value stands; npos: nowhere.
size_t end_of_value(std::string_view text, size_t at) {
  while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
  return at < text.size() ? at : std::string_view::npos;
}

// The labels of a line without one called model_name.
std::string without_name(std::string_view labels) {
  const size_t at = labels.find(kOwnLabel);
  if (at == std::string_view::npos || (at > 0 && labels[at - 1] != ',')) return std::string(labels);
  const size_t end = end_of_value(labels, at + kOwnLabel.size());
  if (end == std::string_view::npos) return std::string(labels);
  std::string_view behind = labels.substr(end + 1);
  if (behind.starts_with(',')) behind.remove_prefix(1);
  std::string rest = std::string(labels.substr(0, at)) + std::string(behind);
  if (rest.ends_with(',')) rest.pop_back();
  return rest;
}

}  // namespace

MetricsMerge::Family& MetricsMerge::family(std::string_view name) {
  const auto [place, is_new] = places_.try_emplace(std::string(name), families_.size());
  if (is_new) families_.emplace_back();
  return families_[place->second];
}

template <class Keep, class Rewrite>
void MetricsMerge::add_lines(std::string_view text, const Keep& keep, const Rewrite& rewrite) {
  std::string current;  // the family that the last comment named
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    if (line.front() == '#') {
      const std::string_view name = described(line);
      if (name.empty() || !keep(name)) continue;
      current = name;
      std::string& head = family(name).head;
      const std::string whole = std::string(line) + "\n";
      if (head.find(whole.substr(0, 7)) == std::string::npos) head += whole;  // the first word about it counts
      continue;
    }
    const std::string_view name = line.substr(0, line.find_first_of("{ "));
    if (!keep(name)) continue;
    const bool is_part = !current.empty() && name.starts_with(current);  // NAME_bucket, NAME_sum, NAME_count
    family(is_part ? std::string_view(current) : name).samples += rewrite(line);
  }
}

void MetricsMerge::add(std::string_view text) {
  add_lines(
      text, [](std::string_view) { return true; }, [](std::string_view line) { return std::string(line) + "\n"; });
}

void MetricsMerge::add_worker(std::string_view text, std::string_view uid, std::string_view replica) {
  const std::string ours = fmt::format("model_name=\"{}\",replica=\"{}\"", label_value(uid), label_value(replica));
  const auto rewrite = [&](std::string_view line) -> std::string {
    const size_t name_end = line.find_first_of("{ ");
    if (name_end == std::string_view::npos) return "";
    const std::string_view name = line.substr(0, name_end);
    if (line[name_end] == ' ') return fmt::format("{}{{{}}}{}\n", name, ours, line.substr(name_end));
    const size_t close = line.rfind('}');
    if (close == std::string_view::npos || close < name_end) return "";
    const std::string labels = without_name(line.substr(name_end + 1, close - name_end - 1));
    const std::string_view comma = labels.empty() ? "" : ",";
    return fmt::format("{}{{{}{}{}}}{}\n", name, ours, comma, labels, line.substr(close + 1));
  };
  add_lines(text, is_of_engine, rewrite);
}

std::string MetricsMerge::text() const {
  std::string text;
  for (const Family& family : families_) text += family.head + family.samples;
  return text;
}

}  // namespace quern::door
