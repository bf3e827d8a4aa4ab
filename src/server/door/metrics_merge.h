// Several texts of metrics (Prometheus' text format 0.0.4) as one: lines of one name stand together, each with the
// labels of where it came from. Pure.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace quern::door {

// Whose lines they are.
struct WorkerLabels {
  std::string uid, replica, node;  // become model_name, replica, node
};

class MetricsMerge {
 public:
  void add(std::string_view text);
  // Of a worker: only families of engines ("vllm:…", "sglang:…", "llamacpp:…"). Every line gets the labels; those of
  // these names that stand there are replaced. Lines that are none are left out.
  void add_worker(std::string_view text, const WorkerLabels& labels);
  // The same of all workers of another machine at once, told apart by the model_name they have there; lines of others
  // are left out.
  void add_machine(std::string_view text, const std::unordered_map<std::string, WorkerLabels>& by_name);
  std::string text() const;

 private:
  struct Family {
    std::string head, samples;
  };
  Family& family(std::string_view name);
  template <class Keep, class Rewrite>
  void add_lines(std::string_view text, const Keep& keep, const Rewrite& rewrite);

  std::vector<Family> families_;  // by first sight
  std::unordered_map<std::string, size_t> places_;
};

}  // namespace quern::door
