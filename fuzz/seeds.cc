#include "seeds.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>

#include "base/check.h"
#include "request_seeds.h"

namespace quern::fuzz {
namespace {

namespace fs = std::filesystem;
const fs::path kGolden = fs::path(QUERN_TEST_DATA) / "golden";
constexpr uintmax_t kFileBytesMax = 1u << 20;

// Files below `folder` whose name ends so, the largest left out, sorted.
std::vector<fs::path> files_below(const fs::path& folder, std::string_view ending) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && entry.path().filename().string().ends_with(ending) &&
        entry.file_size() <= kFileBytesMax) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string seed_name(const fs::path& path) {
  std::string name = fs::relative(path, kGolden).string();
  std::replace(name.begin(), name.end(), '/', '.');
  return name;
}

void add_files(std::vector<Seed>& seeds, const char* folder, std::string_view ending) {
  for (const fs::path& path : files_below(kGolden / folder, ending)) {
    seeds.push_back({seed_name(path), read_file(path)});
  }
}

void add_folder_files(std::vector<Seed>& seeds, const char* file) {
  const auto& folders = golden_folders();
  for (size_t i = 0; i < folders.size(); ++i) {
    seeds.push_back({seed_name(folders[i] / file), static_cast<char>(i) + read_file(folders[i] / file)});
  }
}

void add_lines(std::vector<Seed>& seeds, const fs::path& path, size_t step) {
  std::ifstream file(path);
  size_t number = 0;
  for (std::string line; std::getline(file, line); ++number) {
    if (number % step == 0) seeds.push_back({seed_name(path) + "." + std::to_string(number), line});
  }
}

Seed split_pair() {
  const std::string first = read_file(kGolden / "gguf" / "llama-split-f32-00001-of-00002.gguf");
  const std::string second = read_file(kGolden / "gguf" / "llama-split-f32-00002-of-00002.gguf");
  std::string size;
  for (int shift = 0; shift < 32; shift += 8) size += static_cast<char>(first.size() >> shift & 0xff);
  return {"llama-split", size + first + second};
}

std::vector<Seed> name_seeds() {
  std::vector<Seed> seeds = {
      {"catalog", read_file(fs::path(QUERN_TEST_DATA).parent_path() / "data" / "catalog" / "rerank.json")},
      {"registration", R"({"name": "mine", "aliases": ["my"], "kind": "chat", "family": "llama", "context": 4096,
          "sizes": {"1b": {"parameters_b": 1.1, "layers": 22}}, "variants": [{"size": "1b", "format": "gguf",
          "quantizations": ["Q4_K_M", "Q8_0"], "sources": [{"hf": "o/m", "file": "m-{quantization}.gguf"},
          {"path": "/models/m.gguf"}, {"url": "https://example.org/m.gguf"}]}]})"},
      {"registration_xinference", R"({"version": 2, "context_length": 32768, "model_name": "demo", "model_lang": ["en"],
          "model_ability": ["chat"], "model_family": "qwen3", "model_specs": [{"model_format": "ggufv2",
          "model_size_in_billions": "1_7", "quantizations": ["q8_0"], "model_uri": "file:///m", "model_file_name_template":
          "{quantization}.gguf", "model_src": {"huggingface": {"model_id": "o/{quantization}", "quantizations": ["Q4"]}}},
          {"model_format": "gptq", "model_size_in_billions": 7, "quantization": "Int4", "model_id": "o/m"}]})"}};
  for (const char* name :
       {"smollm2", "qwen2.5:0.5b-q4_k_m", "hf:org/repo", "hf:org/repo@main:dir/file.gguf", "modelscope:o/r:Q4_K_M",
        "pypi:package==1.0:dir/model.gguf", "https://example.org/a.gguf", "./model.gguf", "hf:../..", "hf:a/b:../c"}) {
    seeds.push_back({"name" + std::to_string(seeds.size()), name});
  }
  return seeds;
}

std::vector<Seed> server_config_seeds() {
  return {{"users",
           "compute:\n  device: cpu\nquantization:\n  mode: int8\nadapters:\n  - path: lora/adapter1\n    "
           "alpha: 0.7\n"},
          {"hybrid", "quantization: {mode: hybrid, config: {attention: fp16, ffn: int8}}\nmodels: [a.gguf, smollm2]\n"},
          {"serve", "model: a.gguf\nserve:\n  port: 9997\n  cors: [a, 'b']\n  host: &h \"::1\"\n  root_path: *h\n"},
          {"block", "serve:\n  host: |\n    a\n  store: >-\n    b\n    c\n...\n"},
          {"tags", "%YAML 1.2\n---\na: !!str x\n? [b]\n: c\n<<: {d: ~}\n"}};
}

std::vector<Seed> jobs_seeds() {
  return {
      {"nights", "mon-fri 22:00-06:00, sat+sun 00:00-24:00"},
      {"job", R"({"input_file_id":"f","name":"n","priority":3,"window":"22:00-06:00","deadline":"24h","retries":1})"},
      {"path", R"({"input_path":"a.jsonl","output_path":"b.jsonl","max_concurrency":64,"busy_concurrency":1})"},
      {"trigger",
       R"({"jobId":7,"executorHandler":"quern-batch","executorParams":"n","executorBlockStrategy":"COVER_EARLY",)"
       R"("executorTimeout":60,"logId":41,"logDateTime":1700000000000,"glueType":"BEAN","broadcastTotal":1})"}};
}

std::vector<Seed> hardware_seeds() {
  const fs::path samples = fs::path(QUERN_TEST_DATA) / "hardware";
  const auto read = [&](const char* name) { return read_file(samples / (std::string(name) + ".txt")); };
  std::vector<Seed> seeds = {
      {"amd-smi", '\1' + read("amd-smi-static") + '\0' + read("amd-smi-metric")},
      {"apple", '\4' + read("sysctl") + read("vm_stat")},
  };
  // The first byte as run_hardware() reads it.
  constexpr std::pair<char, const char*> kSamples[] = {
      {'\0', "nvidia-smi"},        {'\0', "ixsmi"},           {'\2', "rocm-smi"},       {'\2', "hy-smi"},
      {'\3', "xpu-smi-discovery"}, {'\4', "xpu-smi-details"}, {'\4', "xpu-smi-stats"},  {'\5', "system_profiler"},
      {'\6', "npu-smi"},           {'\6', "npu-smi-310p"},    {'\7', "cnmon"},          {'\7', "cnmon-v4"},
      {'\10', "mthreads-gmi"},     {'\11', "mx-smi"},         {'\11', "mx-smi-boards"}, {'\12', "cpuinfo-x86"},
      {'\12', "cpuinfo-arm"},      {'\12', "meminfo"}};
  for (const auto& [first, name] : kSamples) seeds.push_back({name, first + read(name)});
  return seeds;
}

}  // namespace

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  QUERN_CHECK(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

const std::vector<fs::path>& golden_folders() {
  static const std::vector<fs::path> folders = [] {
    std::vector<fs::path> found;
    for (const char* group : {"models", "families"}) {
      for (const auto& entry : fs::directory_iterator(kGolden / group)) {
        const auto weights = entry.path() / "model.safetensors";
        if (fs::exists(entry.path() / "config.json") && fs::exists(weights) &&
            fs::file_size(weights) <= kFileBytesMax) {
          found.push_back(entry.path());
        }
      }
    }
    std::sort(found.begin(), found.end());
    QUERN_CHECK(!found.empty() && found.size() <= 256);
    return found;
  }();
  return folders;
}

fs::path golden_model(std::string_view name) {
  for (const fs::path& folder : golden_folders()) {
    if (folder.filename() == name) return folder;
  }
  QUERN_CHECK(false);
}

std::vector<Seed> seeds_of(std::string_view target) {
  std::vector<Seed> seeds;
  if (target == "gguf") {
    for (const char* folder : {"malformed", "gguf", "families/gguf"}) add_files(seeds, folder, ".gguf");
  } else if (target == "gguf_split") {
    seeds.push_back(split_pair());
  } else if (target == "safetensors") {
    for (const char* folder : {"malformed", "quants"}) add_files(seeds, folder, ".safetensors");
  } else if (target == "index") {
    add_files(seeds, "malformed", ".index.json");
  } else if (target == "json") {
    for (const char* file : {"config.json", "tokenizer_config.json"}) add_files(seeds, "models", file);
    add_lines(seeds, kGolden / "templates" / "synthetic.jsonl", 20);
  } else if (target == "config") {
    for (const char* folder : {"models", "families"}) add_files(seeds, folder, "config.json");
  } else if (target == "folder_config") {
    add_folder_files(seeds, "config.json");
  } else if (target == "folder_weights") {
    add_folder_files(seeds, "model.safetensors");
  } else if (target == "tokenizer") {
    for (const char* folder : {"models", "families"}) add_files(seeds, folder, "tokenizer.json");
    add_files(seeds, "tokenizers/files", "tiny_spm_bpe.tokenizer.json");
  } else if (target == "template") {
    add_files(seeds, "templates/files", ".jinja");
  } else if (target == "request") {
    seeds = request_seeds();
  } else if (target == "names") {
    seeds = name_seeds();
  } else if (target.starts_with("http_")) {
    seeds = dialect_seeds(target);
  } else if (target == "schema") {
    seeds = schema_seeds();
  } else if (target == "grammar") {
    seeds = grammar_seeds();
  } else if (target == "server_config") {
    seeds = server_config_seeds();
  } else if (target == "jobs") {
    seeds = jobs_seeds();
  } else if (target == "hardware") {
    seeds = hardware_seeds();
  } else if (target == "adapter") {
    seeds = adapter_seeds();
  }
  QUERN_CHECK(!seeds.empty());
  return seeds;
}

}  // namespace quern::fuzz
