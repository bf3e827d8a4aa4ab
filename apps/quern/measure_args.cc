#include "measure_args.h"

#include <cstdio>

#include "base/status.h"
#include "generation_options.h"
#include "model_arg.h"

namespace quern::cli {

void add_measure_options(CLI::App& command, MeasureArgs& args) {
  command.add_option("MODEL", args.model, kModelHelp)->required();
  command.add_option("-t,--threads", args.engine.num_threads, "0: the cores this process may use")
      ->capture_default_str();
  command.add_option("--device", args.engine.device, "auto, cpu or reference")->capture_default_str();
  command.add_option("--precision", args.engine.precision, "fast or exact")->capture_default_str();
  command.add_option("--quantization", args.engine.quantization, kQuantizationHelp)->capture_default_str();
  args.engine.on_note = [](const std::string& note) { std::fprintf(stderr, "quern: %s\n", note.c_str()); };
  command.add_option("--kv-cache-dtype", args.engine.kv_cache_dtype, "auto, f32, f16, bf16, i16, q8_0 or q4_0")
      ->capture_default_str();
  command.add_option("--kv-cache-dtype-v", args.engine.kv_cache_dtype_v,
                     "of values, where they shall differ from keys");
  command.add_option("--max-num-batched-tokens", args.engine.max_num_batched_tokens, "token budget of a step")
      ->capture_default_str();
  command.add_flag("--json", args.json, "print JSON");
}

Result<std::unique_ptr<Runner>> load_runner(const std::filesystem::path& path, const RunnerOptions& options) {
  QUERN_ASSIGN(auto source, open_model_source(path));
  return Runner::create(std::move(source), options);
}

}  // namespace quern::cli
