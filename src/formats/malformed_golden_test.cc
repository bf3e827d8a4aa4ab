// Every broken file of tests/golden/malformed is refused for its own reason.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "base/json.h"
#include "base/mapped_file.h"
#include "formats/gguf/gguf_file.h"
#include "formats/safetensors/safetensors_file.h"

namespace quern {
namespace {

const std::filesystem::path kMalformed = std::filesystem::path(QUERN_TEST_DATA) / "golden" / "malformed";

// What the message must say; empty for containers that are well formed (the model in them is not).
const std::map<std::string, std::string>& expected_reasons() {
  static const std::map<std::string, std::string> reasons = {
      {"gguf_empty.gguf", "0 bytes are too few"},
      {"gguf_bad_magic.gguf", "'GGUX'"},
      {"gguf_bad_version.gguf", "version 77"},
      {"gguf_truncated_header.gguf", "do not fit"},
      {"gguf_truncated_data.gguf", "run past the end of the data"},
      {"gguf_huge_n_tensors.gguf", "2305843009213693952 tensors do not fit"},
      {"gguf_huge_n_kv.gguf", "4611686018427387904 metadata pairs do not fit"},
      {"gguf_key_length_overflow.gguf", "key of metadata pair 1: a string of 18446744073709551615 bytes"},
      {"gguf_string_past_end.gguf", "metadata 'general.name': a string of 1099511627776 bytes"},
      {"gguf_array_size_overflow.gguf", "metadata 'x.array': an array of 2305843009213693952 elements"},
      {"gguf_nested_arrays.gguf", "metadata 'x.nested': arrays nested deeper than"},
      {"gguf_unknown_value_type.gguf", "metadata 'x.unknown': unknown value type 99"},
      {"gguf_unknown_tensor_type.gguf", "tensor 'blk.0.attn_q.weight': unknown element type 4242"},
      {"gguf_too_many_dims.gguf", "tensor 'blk.0.attn_q.weight': 2147483648 dimensions"},
      {"gguf_dims_overflow.gguf", "tensor 'blk.0.attn_q.weight': shape [4, 4294967296, 4294967296] overflows"},
      {"gguf_offset_past_end.gguf", "at offset 1125899906842624 run past the end"},
      {"gguf_offset_wraps.gguf", "at offset 18446744073709551584 run past the end"},
      {"gguf_offset_misaligned.gguf", "offset 1092 is not a multiple of the alignment 32"},
      {"gguf_duplicate_tensor.gguf", "two tensors are named 'blk.0.ffn_gate.weight'"},
      {"gguf_alignment_zero.gguf", "general.alignment is 0"},
      {"gguf_alignment_type.gguf", "general.alignment has value type 8"},
      {"gguf_row_not_in_blocks.gguf", "rows of 8 elements are not whole Q4_0 blocks of 32"},
      {"gguf_head_count_zero.gguf", ""},
      {"gguf_block_count_huge.gguf", ""},
      {"gguf_wrong_shape.gguf", ""},
      {"st_short_file.safetensors", "4 bytes are too few"},
      {"st_header_past_end.safetensors", "a header of 1000000 bytes runs past the end"},
      {"st_header_length_overflow.safetensors", "a header of 18446744073709551608 bytes is over the limit"},
      {"st_header_not_json.safetensors", "not JSON"},
      {"st_unknown_dtype.safetensors", "tensor 'a': unknown dtype 'F12'"},
      {"st_size_mismatch.safetensors", "tensor 'a': shape [2, 5] of F32 is 40 bytes, data_offsets [0, 32] give 32"},
      {"st_overlap.safetensors", "tensor 'b': begins at byte 16 of the data, the tensor before it ends at 32"},
      {"st_negative_offset.safetensors", "data_offsets of tensor 'a' may not be the number -32"},
      {"st_reversed_offsets.safetensors", "tensor 'a': data_offsets [32, 0] are reversed"},
      {"st_past_end.safetensors", "tensor 'b': ends at byte 96 of the data, which has 64"},
      {"st_shape_overflow.safetensors", "tensor 'a': shape [4294967296, 4294967296] overflows"},
      {"st_deep_json.safetensors", "'a' may not be an array"},
      {"st_shape_type.safetensors", "shape of tensor 'a' may not be the string '4'"},
      {"index_path_escape/", "weight_map of 'b' names '../valid.safetensors'"},
      {"index_missing_file/", "names 'model-00002-of-00002.safetensors', which does not exist"},
  };
  return reasons;
}

Status open_any(const std::string& file) {
  const auto path = kMalformed / file;
  if (path.extension() == ".gguf") {
    if (auto opened = GgufFile::open(path); !opened) return std::unexpected(opened.error());
    return {};
  }
  if (auto opened = SafetensorsFile::open(path); !opened) return std::unexpected(opened.error());
  return {};
}

class MalformedFile : public testing::TestWithParam<std::pair<const std::string, std::string>> {};

TEST_P(MalformedFile, IsRefusedForItsReason) {
  const auto& [file, reason] = GetParam();
  const Status status = open_any(file);
  if (reason.empty()) {
    EXPECT_TRUE(status) << status.error().message;
    return;
  }
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidFile);
  EXPECT_NE(status.error().message.find(reason), std::string::npos) << status.error().message;
  EXPECT_NE(status.error().message.find((kMalformed / file).string()), std::string::npos) << status.error().message;
  EXPECT_EQ(status.error().message.find('\n'), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Golden, MalformedFile, testing::ValuesIn(expected_reasons()), [](const auto& info) {
  std::string name = info.param.first.substr(0, info.param.first.find_first_of("./"));
  return name;
});

TEST(MalformedFiles, TableCoversTheManifest) {
  const auto manifest = MappedFile::open(kMalformed / "manifest.json");
  ASSERT_TRUE(manifest);
  const auto bytes = manifest->bytes();
  const auto json = parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, "manifest.json");
  ASSERT_TRUE(json);
  std::set<std::string> listed, expected;
  for (const Json& entry : json->at("files")) listed.insert(entry.at("file").get<std::string>());
  for (const auto& [file, reason] : expected_reasons()) expected.insert(file);
  EXPECT_EQ(listed, expected);
}

TEST(MalformedFiles, TheirValidOriginalsLoad) {
  const auto gguf = GgufFile::open(kMalformed / "valid.gguf");
  ASSERT_TRUE(gguf) << gguf.error().message;
  EXPECT_EQ((*gguf)->tensors().size(), 12u);
  const TensorView* query = (*gguf)->find("blk.0.attn_k.weight");
  ASSERT_NE(query, nullptr);
  EXPECT_EQ(query->shape, (Shape{4, 8}));  // one kv head of 4, width 8
  EXPECT_EQ((*gguf)->find("absent"), nullptr);
  EXPECT_EQ((*gguf)->metadata().get_int("llama.block_count").value(), 1);

  const auto tensors = SafetensorsFile::open(kMalformed / "valid.safetensors");
  ASSERT_TRUE(tensors) << tensors.error().message;
  ASSERT_EQ((*tensors)->tensors().size(), 2u);
  EXPECT_EQ((*tensors)->find("a")->shape, (Shape{2, 4}));
  EXPECT_EQ((*tensors)->find("b")->bytes.size(), 64u);
  EXPECT_EQ((*tensors)->metadata().at("format"), "pt");
}

}  // namespace
}  // namespace quern
