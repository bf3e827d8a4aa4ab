// quern inspect: what is in a model file; one tensor as float32.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "command.h"
#include "formats/safetensors/safetensors_writer.h"
#include "inspect_report.h"
#include "model_arg.h"
#include "quantization_report.h"
#include "tensor/dequantize.h"

namespace quern::cli {
namespace {

struct InspectOptions {
  std::string path;
  std::string tensor;
  std::string output;
  std::string quantization;
  bool json = false;
};

Status print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    return io_error("cannot write to stdout");
  return {};
}

// A piece at a time: float32 is up to thirty times the size of a quantised tensor.
Status produce_f32(const TensorView& tensor, const ByteSink& sink) {
  constexpr int64_t kPieceElements = 1 << 18;
  const DTypeInfo& info = dtype_info(tensor.dtype);
  static_assert(kPieceElements % 256 == 0, "a piece is whole blocks of every type");
  std::vector<float> piece(static_cast<size_t>(std::min(kPieceElements, tensor.elements())));
  const std::byte* source = tensor.bytes.data();
  for (int64_t begin = 0; begin < tensor.elements(); begin += kPieceElements) {
    const int64_t count = std::min(kPieceElements, tensor.elements() - begin);
    dequantize(tensor.dtype, source, piece.data(), count);
    QUERN_TRY(sink(std::as_bytes(std::span(piece).first(static_cast<size_t>(count)))));
    source += count / info.block_elements * info.block_bytes;
  }
  return {};
}

Status write_tensor(const Inspected& inspected, const InspectOptions& options) {
  const TensorView* tensor = inspected.tensors().find(options.tensor);
  if (tensor == nullptr) return not_found(fmt::format("{}: no tensor named {}", options.path, options.tensor));
  const TensorView as_f32{.name = tensor->name, .dtype = DType::kF32, .shape = tensor->shape};
  QUERN_TRY(write_safetensors(options.output, std::span(&as_f32, 1), {},
                              [&](size_t, const ByteSink& sink) { return produce_f32(*tensor, sink); }));
  const Json described = tensor_json(*tensor);
  if (options.json) return print(dump_json(described) + "\n");
  return print(fmt::format("{} {} {}: written to {} as F32\n", dump_json(described["name"]),
                           dtype_info(tensor->dtype).name, shape_string(tensor->shape), options.output));
}

// Files win over names: a container need not end in .gguf.
Result<std::filesystem::path> path_to_inspect(const std::string& model) {
  std::error_code ignored;
  if (std::filesystem::exists(model, ignored)) return std::filesystem::path(model);
  return resolve_model(model);
}

Status inspect(const InspectOptions& options) {
  if (options.tensor.empty() != options.output.empty()) return invalid_argument("--tensor and -o belong together");
  QUERN_ASSIGN(const auto path, path_to_inspect(options.path));
  if (!options.quantization.empty()) {
    if (!options.tensor.empty()) return invalid_argument("--quantization: not together with --tensor");
    QUERN_ASSIGN(const auto source, open_model_source(path));
    QUERN_ASSIGN(const Json report, quantization_json(*source, options.quantization));
    return print(options.json ? dump_json(report) + "\n" : quantization_text(report));
  }
  QUERN_ASSIGN(const Inspected inspected, open_inspected(path));
  if (!options.tensor.empty()) return write_tensor(inspected, options);
  return print(options.json ? dump_json(inspect_json(inspected)) + "\n" : inspect_text(inspected));
}

}  // namespace

void add_inspect(CLI::App& app, ExitCode& exit) {
  CLI::App* command =
      app.add_subcommand("inspect", "Show the metadata and tensors of a model, a GGUF or a safetensors file");
  const auto options = std::make_shared<InspectOptions>();
  command
      ->add_option("MODEL", options->path, std::string("a .safetensors file or its index, or a MODEL: ") + kModelHelp)
      ->required();
  command->add_flag("--json", options->json, "print JSON, nothing shortened");
  command->add_option("--tensor", options->tensor, "write this tensor alone, dequantised to float32");
  command->add_option("-o,--output", options->output, "the safetensors file to write it to");
  command->add_option("--quantization", options->quantization,
                      "show what this makes of the matrices instead, and how far they are from the file");
  command->callback([options, command, &exit] { finish(inspect(*options), *command, exit); });
}

}  // namespace quern::cli
