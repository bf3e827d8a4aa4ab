// Loading is total, and what a family's layout demands is found in any folder: fixtures, changed and written anew.
#include <fstream>

#include "formats/safetensors/safetensors_writer.h"
#include "models/golden_runner.h"
#include "models/interleaved_experts.h"
#include "models/tensor_names.h"
#include "tensor/dequantize.h"

namespace quern::testing {
namespace {

const std::filesystem::path kModels = std::filesystem::path(QUERN_TEST_DATA) / "golden" / "models";

// A copy of a fixture with other tensors and another config.json.
class ChangedFixture {
 public:
  explicit ChangedFixture(const std::string& name)
      : original_(kModels / name),
        folder_(std::filesystem::path(::testing::TempDir()) /
                ("quern_binding_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()))) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    auto file = SafetensorsFile::open(original_ / "model.safetensors");
    EXPECT_TRUE(file.has_value());
    file_ = std::move(*file);
    tensors_.assign(file_->tensors().begin(), file_->tensors().end());
    std::ifstream config(original_ / "config.json");
    const std::string text{std::istreambuf_iterator<char>(config), {}};
    config_ = std::move(*parse_json(text, "config.json"));
  }
  ~ChangedFixture() { std::filesystem::remove_all(folder_); }

  std::vector<TensorView>& tensors() { return tensors_; }
  Json& config() { return config_; }
  std::filesystem::path write() {
    EXPECT_TRUE(write_safetensors(folder_ / "model.safetensors", tensors_).has_value());
    std::ofstream(folder_ / "config.json") << dump_json(config_);
    return folder_;
  }
  std::string load_error() {
    auto source = open_model_source(write());
    if (!source) return source.error().message;
    const std::unique_ptr<Device> device = make_reference_device();
    auto model = load_decoder(**source, *device, Precision::kExact);
    return model ? "" : model.error().message;
  }
  const std::filesystem::path& original() const { return original_; }

 private:
  std::filesystem::path original_, folder_;
  std::unique_ptr<SafetensorsFile> file_;
  std::vector<TensorView> tensors_;
  Json config_;
};

bool ends_with(const std::string& text, std::string_view end) {
  return text.ends_with(end);
}

TEST(BindingTest, MissingTensorIsNamed) {
  ChangedFixture fixture("qwen2");
  std::erase_if(fixture.tensors(),
                [](const TensorView& t) { return t.name == "model.layers.1.self_attn.k_proj.bias"; });
  EXPECT_TRUE(ends_with(fixture.load_error(), ": tensor model.layers.1.self_attn.k_proj.bias is missing"));
}

TEST(BindingTest, UnusedTensorIsNamed) {
  ChangedFixture fixture("llama");
  TensorView extra = fixture.tensors()[0];
  extra.name = "model.layers.0.self_attn.q_proj.bias";
  fixture.tensors().push_back(extra);
  EXPECT_TRUE(
      ends_with(fixture.load_error(), ": tensor model.layers.0.self_attn.q_proj.bias is not used by this model"));
}

TEST(BindingTest, LayersMustAgreeWithTensors) {
  ChangedFixture more("llama");
  more.config()["num_hidden_layers"] = 4;
  EXPECT_TRUE(ends_with(more.load_error(), ": tensor model.layers.3.input_layernorm.weight is missing"));
  more.config()["num_hidden_layers"] = 2;
  EXPECT_NE(more.load_error().find("tensor model.layers.2."), std::string::npos);
}

TEST(BindingTest, ImpossibleHeadsAreRefused) {
  ChangedFixture fixture("llama");
  fixture.config()["num_key_value_heads"] = 3;
  EXPECT_TRUE(ends_with(fixture.load_error(), ": 3 key/value heads do not divide 4 attention heads"));
}

TEST(BindingTest, UnknownFamilyIsNamed) {
  ChangedFixture fixture("llama");
  fixture.config()["model_type"] = "perceptron";
  EXPECT_TRUE(ends_with(fixture.load_error(), ": model_type \"perceptron\" is not supported"));
}

TEST(BindingTest, IntegerWeightsAreRefused) {
  ChangedFixture fixture("llama");
  for (TensorView& tensor : fixture.tensors()) {
    if (tensor.name == "model.layers.0.mlp.up_proj.weight") tensor.dtype = DType::kI16;
  }
  EXPECT_NE(fixture.load_error().find("model.layers.0.mlp.up_proj is of type I16"), std::string::npos);
}

TEST(BindingTest, DuplicateOfTiedMatrixIsIgnored) {
  ChangedFixture fixture("qwen2");
  TensorView duplicate = fixture.tensors()[0];
  for (const TensorView& tensor : fixture.tensors()) {
    if (tensor.name == "model.embed_tokens.weight") duplicate = tensor;
  }
  duplicate.name = "lm_head.weight";
  fixture.tensors().push_back(duplicate);
  EXPECT_EQ(fixture.load_error(), "");
}

TEST(BindingTest, TextPartOfMultimodalFolder) {
  ChangedFixture fixture("gemma3");
  Json text = fixture.config();
  for (const char* key : {"architectures", "eos_token_id"}) text.erase(key);
  Json wrapper = Json::object();
  wrapper["model_type"] = "gemma3";
  wrapper["eos_token_id"] = Json::array({2, 5});
  wrapper["text_config"] = text;
  fixture.config() = wrapper;
  for (TensorView& tensor : fixture.tensors()) tensor.name = "language_model." + tensor.name;
  TensorView tower = fixture.tensors()[0];
  tower.name = "vision_tower.embeddings.weight";
  fixture.tensors().push_back(tower);
  const std::filesystem::path path = fixture.write();
  check_golden_model(read_golden_folder(fixture.original(), path), "reference");
  EXPECT_EQ(load(path, "reference").model->config().eos_ids, (std::vector<int32_t>{2, 5}));
}

TEST(BindingTest, PrefixOfOriginalGpt2IsOptional) {
  ChangedFixture fixture("gpt2");
  for (TensorView& tensor : fixture.tensors()) tensor.name = tensor.name.substr(std::string("transformer.").size());
  check_golden_model(read_golden_folder(fixture.original(), fixture.write()), "reference");
}

TEST(BindingTest, WindowPatternZeroMeansNoWindows) {
  ChangedFixture fixture("../families/exaone4");
  Json& config = fixture.config();
  config["sliding_window_pattern"] = 0;
  config["layer_types"] = Json::array();
  for (int32_t i = 0; i < config["num_hidden_layers"]; ++i) config["layer_types"].push_back("full_attention");
  EXPECT_NE(fixture.load_error().find("sliding_window_pattern is 0"), std::string::npos);
  config["sliding_window"] = nullptr;
  EXPECT_EQ(fixture.load_error(), "");
}

TEST(InterleavedExpertsTest, RepackedBlockHasTheSameValues) {
  std::byte nibbles[16];
  for (int i = 0; i < 16; ++i) nibbles[i] = static_cast<std::byte>((2 * i) % 16 | ((2 * i + 1) % 16) << 4);
  std::byte block[17];
  repack_mxfp4_block(nibbles, std::byte{128}, block);
  float values[32];
  dequantize(DType::kMXFP4, block, values, 32);
  // E2M1 codes 0 … 15, times 2^(128 - 127).
  const float codes[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
  for (int i = 0; i < 32; ++i) EXPECT_EQ(values[i], 2.0f * codes[i % 16]) << i;
}

TEST(TensorNamesTest, FillsHolesAndMatchesPatterns) {
  EXPECT_EQ(tensor_name("layers.{}.experts.{}.w1", 3, 7), "layers.3.experts.7.w1");
  EXPECT_EQ(tensor_name("norm", 3), "norm");
  EXPECT_TRUE(matches_pattern("model.layers.0.self_attn.rotary_emb.inv_freq", "*.rotary_emb.inv_freq"));
  EXPECT_TRUE(matches_pattern("h.11.attn.bias", "*h.*.attn.bias"));
  EXPECT_FALSE(matches_pattern("h.11.attn.c_attn.bias", "*h.*.attn.bias"));
  EXPECT_FALSE(matches_pattern("model.layers.610.x", "model.layers.61.*"));
}

TEST(KvBytesTest, LatentAttentionStoresOneVector) {
  const LoadedModel llama = load(kModels / "llama", "reference");
  // 3 layers, 2 heads of 16, keys and values.
  EXPECT_EQ(kv_bytes_per_token(llama.model->config(), KvDType::kF16, KvDType::kF16), 3u * 2 * 2 * 16 * 2);
  const LoadedModel deepseek = load(kModels / "deepseek_v3", "reference");
  // 3 layers, one latent of 16 and a rotated key of 8.
  EXPECT_EQ(kv_bytes_per_token(deepseek.model->config(), KvDType::kF16, KvDType::kF16), 3u * (16 + 8) * 2);
}

}  // namespace
}  // namespace quern::testing
