// Metrics of workers beside ours: one family, one head, every line told apart.
#include "server/door/metrics_merge.h"

#include <gtest/gtest.h>

namespace quern::door {
namespace {

constexpr const char* kWorker =
    "# HELP vllm:x Things.\n# TYPE vllm:x counter\nvllm:x{engine=\"0\",model_name=\"w\"} 3\n"
    "# HELP process_y Y.\n# TYPE process_y gauge\nprocess_y 1\n"
    "# TYPE vllm:t_seconds histogram\nvllm:t_seconds_bucket{model_name=\"w\",le=\"+Inf\"} 2\nvllm:t_seconds_sum 0.5\n"
    "llamacpp:z 7\n";

TEST(MetricsMerge, WorkersLinesAreToldApart) {
  MetricsMerge merge;
  merge.add("# HELP vllm:x Things.\n# TYPE vllm:x counter\nvllm:x{engine=\"0\",model_name=\"local\"} 1\n");
  merge.add_worker(kWorker, "m", "m-0");
  merge.add_worker(kWorker, "m", "m-1");
  EXPECT_EQ(merge.text(),
            "# HELP vllm:x Things.\n# TYPE vllm:x counter\n"
            "vllm:x{engine=\"0\",model_name=\"local\"} 1\n"
            "vllm:x{model_name=\"m\",replica=\"m-0\",engine=\"0\"} 3\n"
            "vllm:x{model_name=\"m\",replica=\"m-1\",engine=\"0\"} 3\n"
            "# TYPE vllm:t_seconds histogram\n"
            "vllm:t_seconds_bucket{model_name=\"m\",replica=\"m-0\",le=\"+Inf\"} 2\n"
            "vllm:t_seconds_sum{model_name=\"m\",replica=\"m-0\"} 0.5\n"
            "vllm:t_seconds_bucket{model_name=\"m\",replica=\"m-1\",le=\"+Inf\"} 2\n"
            "vllm:t_seconds_sum{model_name=\"m\",replica=\"m-1\"} 0.5\n"
            "llamacpp:z{model_name=\"m\",replica=\"m-0\"} 7\n"
            "llamacpp:z{model_name=\"m\",replica=\"m-1\"} 7\n");
}

TEST(MetricsMerge, NamesAndLabelsFromOutside) {
  MetricsMerge merge;
  merge.add_worker("vllm:x{a=\"}\",model_name=\"q\\\"},x\",b=\"2\"} 1\nvllm:broken{a=\"\nvllm:\n", "a\"b", "r\n");
  EXPECT_EQ(merge.text(), "vllm:x{model_name=\"a\\\"b\",replica=\"r\\n\",a=\"}\",b=\"2\"} 1\n");
}

}  // namespace
}  // namespace quern::door
