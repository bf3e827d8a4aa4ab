#include "base/status.h"
#include "engine/device_choice.h"
#include "engine/runner.h"
#include "kernels/profiled_device.h"

namespace quern {

void tell_of_quantization(const std::string& quantization, const QuantReport& report,
                          const std::function<void(const std::string&)>& on_note) {
  const std::string note = describe(report, quantization);
  if (on_note && !note.empty()) on_note(note);
}

Result<std::unique_ptr<Runner>> Runner::create(std::unique_ptr<ModelSource> source, const RunnerOptions& options) {
  QUERN_ASSIGN(auto device, make_device(options.device, options.num_threads));
  if (options.profile != nullptr) device = make_profiled_device(std::move(device), *options.profile);
  QUERN_ASSIGN(const QuantScheme scheme, parse_quant_scheme(options.quantization));
  QuantReport report;
  QUERN_ASSIGN(auto model, load_decoder(*source, *device, {options.precision, scheme, &report}));
  tell_of_quantization(options.quantization, report, options.on_note);
  std::unique_ptr<Runner> runner(new Runner(std::move(source), std::move(device), std::move(model), options));
  QUERN_TRY(runner->prepare());
  return runner;
}

}  // namespace quern
