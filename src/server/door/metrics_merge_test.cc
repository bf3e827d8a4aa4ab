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
  merge.add_worker(kWorker, {"m", "m-0", "local"});
  merge.add_worker(kWorker, {"m", "m-1", "local"});
  EXPECT_EQ(merge.text(),
            "# HELP vllm:x Things.\n# TYPE vllm:x counter\n"
            "vllm:x{engine=\"0\",model_name=\"local\"} 1\n"
            "vllm:x{model_name=\"m\",replica=\"m-0\",node=\"local\",engine=\"0\"} 3\n"
            "vllm:x{model_name=\"m\",replica=\"m-1\",node=\"local\",engine=\"0\"} 3\n"
            "# TYPE vllm:t_seconds histogram\n"
            "vllm:t_seconds_bucket{model_name=\"m\",replica=\"m-0\",node=\"local\",le=\"+Inf\"} 2\n"
            "vllm:t_seconds_sum{model_name=\"m\",replica=\"m-0\",node=\"local\"} 0.5\n"
            "vllm:t_seconds_bucket{model_name=\"m\",replica=\"m-1\",node=\"local\",le=\"+Inf\"} 2\n"
            "vllm:t_seconds_sum{model_name=\"m\",replica=\"m-1\",node=\"local\"} 0.5\n"
            "llamacpp:z{model_name=\"m\",replica=\"m-0\",node=\"local\"} 7\n"
            "llamacpp:z{model_name=\"m\",replica=\"m-1\",node=\"local\"} 7\n");
}

TEST(MetricsMerge, NamesAndLabelsFromOutside) {
  MetricsMerge merge;
  merge.add_worker("vllm:x{a=\"}\",model_name=\"q\\\"},x\",b=\"2\"} 1\nvllm:broken{a=\"\nvllm:\n",
                   {"a\"b", "r\n", "n"});
  EXPECT_EQ(merge.text(), "vllm:x{model_name=\"a\\\"b\",replica=\"r\\n\",node=\"n\",a=\"}\",b=\"2\"} 1\n");
}

TEST(MetricsMerge, AMachinesWorkersAreKnownByTheNameTheyHaveThere) {
  MetricsMerge merge;
  merge.add_machine(
      "# TYPE vllm:x counter\nvllm:x{a=\"model_name=\",model_name=\"m-1@7\",replica=\"m-1@7-0\",node=\"local\"} 3\n"
      "vllm:x{model_name=\"other\"} 4\nvllm:x 5\nquern_door_retries_total{model_name=\"m-1@7\"} 6\n",
      {{"m-1@7", {"m", "m-1", "node-b"}}});
  EXPECT_EQ(merge.text(),
            "# TYPE vllm:x counter\nvllm:x{model_name=\"m\",replica=\"m-1\",node=\"node-b\",a=\"model_name=\"} 3\n");
}

}  // namespace
}  // namespace quern::door
