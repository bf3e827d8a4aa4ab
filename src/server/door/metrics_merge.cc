#include "server/door/metrics_merge.h"

#include <algorithm>
#include <optional>

#include "fmt/format.h"
#include "server/metrics/metrics.h"

namespace quern::door {
namespace {

constexpr std::string_view kEngines[] = {"vllm:", "sglang:", "llamacpp:"};
constexpr std::string_view kOwnLabels[] = {"model_name=\"", "replica=\"", "node=\""};

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

// Where the label that begins so stands among those of a line; npos: nowhere. Values are stepped over.
size_t find_label(std::string_view labels, std::string_view begin) {
  for (size_t at = 0; at < labels.size();) {
    if (labels.substr(at).starts_with(begin)) return at;
    const size_t quote = labels.find('"', at);
    const size_t end = quote == std::string_view::npos ? quote : end_of_value(labels, quote + 1);
    if (end == std::string_view::npos) return end;
    at = end + 1;
    if (at < labels.size() && labels[at] == ',') ++at;
  }
  return std::string_view::npos;
}

std::string without(std::string_view labels, std::string_view begin) {
  const size_t at = find_label(labels, begin);
  if (at == std::string_view::npos) return std::string(labels);
  const size_t end = end_of_value(labels, at + begin.size());
  if (end == std::string_view::npos) return std::string(labels);
  std::string_view behind = labels.substr(end + 1);
  if (behind.starts_with(',')) behind.remove_prefix(1);
  std::string rest = std::string(labels.substr(0, at)) + std::string(behind);
  if (rest.ends_with(',')) rest.pop_back();
  return rest;
}

// "NAME{LABELS} VALUE" in three; labels are empty where there are none.
struct Line {
  std::string_view name, labels, value;  // the value with its space
};
std::optional<Line> parse_line(std::string_view line) {
  const size_t name_end = line.find_first_of("{ ");
  if (name_end == std::string_view::npos) return std::nullopt;
  if (line[name_end] == ' ') return Line{line.substr(0, name_end), {}, line.substr(name_end)};
  const size_t close = line.rfind('}');
  if (close == std::string_view::npos || close < name_end) return std::nullopt;
  return Line{line.substr(0, name_end), line.substr(name_end + 1, close - name_end - 1), line.substr(close + 1)};
}

std::string with_labels(const Line& line, const WorkerLabels& own) {
  std::string labels(line.labels);
  for (const std::string_view begin : kOwnLabels) labels = without(labels, begin);
  return fmt::format("{}{{model_name=\"{}\",replica=\"{}\",node=\"{}\"{}{}}}{}\n", line.name, label_value(own.uid),
                     label_value(own.replica), label_value(own.node), labels.empty() ? "" : ",", labels, line.value);
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

void MetricsMerge::add_worker(std::string_view text, const WorkerLabels& labels) {
  add_lines(text, is_of_engine, [&](std::string_view line) -> std::string {
    const auto parsed = parse_line(line);
    return parsed ? with_labels(*parsed, labels) : "";
  });
}

void MetricsMerge::add_machine(std::string_view text, const std::unordered_map<std::string, WorkerLabels>& by_name) {
  add_lines(text, is_of_engine, [&](std::string_view line) -> std::string {
    const auto parsed = parse_line(line);
    const size_t at = parsed ? find_label(parsed->labels, kOwnLabels[0]) : std::string_view::npos;
    if (at == std::string_view::npos) return "";
    const size_t begin = at + kOwnLabels[0].size(), end = end_of_value(parsed->labels, begin);
    if (end == std::string_view::npos) return "";
    const auto own = by_name.find(std::string(parsed->labels.substr(begin, end - begin)));
    return own == by_name.end() ? "" : with_labels(*parsed, own->second);
  });
}

std::string MetricsMerge::text() const {
  std::string text;
  for (const Family& family : families_) text += family.head + family.samples;
  return text;
}

}  // namespace quern::door
