// What is written is read back the same, and what a reader would refuse is not written.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "formats/gguf/gguf_file.h"
#include "formats/gguf/gguf_writer.h"
#include "formats/safetensors/safetensors_file.h"
#include "formats/safetensors/safetensors_writer.h"

namespace quern {
namespace {

namespace fs = std::filesystem;
const fs::path kFixtures = fs::path(QUERN_TEST_DATA) / "golden";

class Writers : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("quern_writers_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  // A view of `count` bytes that differ, which live as long as the fixture.
  TensorView tensor(std::string name, DType dtype, Shape shape) {
    const uint64_t size = *dtype_bytes(dtype, static_cast<uint64_t>(num_elements(shape)));
    auto& bytes = storage_.emplace_back(size);
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + storage_.size());
    return {.name = std::move(name), .dtype = dtype, .shape = std::move(shape), .bytes = bytes};
  }

  bool folder_is_empty() const { return fs::is_empty(folder_); }

  fs::path folder_;
  std::vector<std::vector<std::byte>> storage_;
};

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void expect_same_tensors(std::span<const TensorView> written, const TensorFile& read) {
  ASSERT_EQ(read.tensors().size(), written.size());
  for (const TensorView& tensor : written) {
    const TensorView* same = read.find(tensor.name);
    ASSERT_NE(same, nullptr) << tensor.name;
    EXPECT_EQ(same->dtype, tensor.dtype) << tensor.name;
    EXPECT_EQ(same->shape, tensor.shape) << tensor.name;
    EXPECT_TRUE(std::ranges::equal(same->bytes, tensor.bytes)) << tensor.name;
  }
}

TEST_F(Writers, GgufOfOthersIsWrittenBackByteForByte) {
  for (const fs::path& path : {kFixtures / "malformed" / "valid.gguf", kFixtures / "gguf" / "llama-f32.gguf",
                               kFixtures / "gguf" / "llama_mixed.gguf"}) {
    const auto original = GgufFile::open(path);
    ASSERT_TRUE(original) << original.error().message;
    const Status status = write_gguf(folder_ / "copy.gguf", (*original)->metadata(), (*original)->tensors());
    ASSERT_TRUE(status) << status.error().message;
    EXPECT_TRUE(bytes_of(path) == bytes_of(folder_ / "copy.gguf")) << path;
  }
}

TEST_F(Writers, GgufKeepsEveryKindOfValue) {
  using Strings = std::vector<std::string>;
  const auto type = [](GgufType t) { return static_cast<uint32_t>(t); };
  GgufMetadata metadata;
  metadata.set("u8", {type(GgufType::kU8), uint64_t{255}});
  metadata.set("i8", {type(GgufType::kI8), int64_t{-128}});
  metadata.set("u16", {type(GgufType::kU16), uint64_t{65535}});
  metadata.set("i16", {type(GgufType::kI16), int64_t{-32768}});
  metadata.set("u32", {type(GgufType::kU32), uint64_t{4294967295}});
  metadata.set("i32", {type(GgufType::kI32), int64_t{-2147483648}});
  metadata.set("u64", {type(GgufType::kU64), ~uint64_t{0}});
  metadata.set("i64", {type(GgufType::kI64), std::numeric_limits<int64_t>::min()});
  metadata.set("f32", {type(GgufType::kF32), 0.1f});
  metadata.set("f64", {type(GgufType::kF64), 0.1});
  metadata.set("bool", {type(GgufType::kBool), true});
  metadata.set("text", {type(GgufType::kString), std::string("a\0b", 3)});
  metadata.set("words", {type(GgufType::kArray), GgufArray{type(GgufType::kString), Strings{"", "x", "yz"}}});
  metadata.set("flags", {type(GgufType::kArray), GgufArray{type(GgufType::kBool), std::vector<uint64_t>{1, 0, 1}}});
  metadata.set("numbers", {type(GgufType::kArray), GgufArray{type(GgufType::kI32), std::vector<int64_t>{-1, 2}}});
  metadata.set("floats", {type(GgufType::kArray), GgufArray{type(GgufType::kF32), std::vector<double>{0.5, -2}}});
  metadata.set("none", {type(GgufType::kArray), GgufArray{type(GgufType::kF32), std::vector<double>{}}});
  metadata.set("nested", {type(GgufType::kArray),
                          GgufArray{type(GgufType::kArray),
                                    std::vector<GgufArray>{{type(GgufType::kU8), std::vector<uint64_t>{1, 2}},
                                                           {type(GgufType::kString), Strings{"z"}}}}});
  ASSERT_TRUE(write_gguf(folder_ / "values.gguf", metadata, {}));
  const auto read = GgufFile::open(folder_ / "values.gguf");
  ASSERT_TRUE(read) << read.error().message;
  const GgufMetadata& back = (*read)->metadata();
  ASSERT_EQ(back.pairs().size(), metadata.pairs().size());
  EXPECT_EQ(back.get_int("u8").value(), 255);
  EXPECT_EQ(back.get_int("i64").value(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(std::get<uint64_t>(back.find("u64")->value), ~uint64_t{0});
  EXPECT_EQ(back.get_float("f32").value(), static_cast<double>(0.1f));
  EXPECT_EQ(back.get_float("f64").value(), 0.1);
  EXPECT_TRUE(back.get_bool("bool").value());
  EXPECT_EQ(back.get_string("text").value(), std::string("a\0b", 3));
  EXPECT_EQ(*back.get_strings("words").value(), (Strings{"", "x", "yz"}));
  EXPECT_EQ(back.get_ints("flags").value(), (std::vector<int64_t>{1, 0, 1}));
  EXPECT_EQ(back.get_ints("i8").value(), (std::vector<int64_t>{-128}));
  EXPECT_EQ(back.get_floats("numbers").value(), (std::vector<double>{-1, 2}));
  const auto& none = std::get<GgufArray>(back.find("none")->value);
  EXPECT_EQ(none.element_type, type(GgufType::kF32));
  EXPECT_EQ(none.size(), 0u);
  const auto& nested = std::get<std::vector<GgufArray>>(std::get<GgufArray>(back.find("nested")->value).items);
  ASSERT_EQ(nested.size(), 2u);
  EXPECT_EQ(std::get<std::vector<std::string>>(nested[1].items), (Strings{"z"}));

  EXPECT_EQ(back.get_int("u64").error().code, ErrorCode::kInvalidFile);
  EXPECT_EQ(back.get_int("absent").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(back.get_int("text").error().code, ErrorCode::kInvalidFile);
  EXPECT_EQ(back.get_int("bool").error().code, ErrorCode::kInvalidFile);
  EXPECT_EQ(back.get_strings("numbers").error().code, ErrorCode::kInvalidFile);
  EXPECT_EQ(back.get_floats("words").error().code, ErrorCode::kInvalidFile);
}

TEST_F(Writers, GgufTensorsKeepTypeShapeAndBytes) {
  GgufMetadata metadata;
  metadata.set("general.alignment", {static_cast<uint32_t>(GgufType::kU32), uint64_t{64}});
  const std::vector<TensorView> tensors = {
      tensor("matrix", DType::kQ4K, {3, 512}), tensor("scalar", DType::kF32, {}), tensor("empty", DType::kF16, {0, 4}),
      tensor("experts", DType::kMXFP4, {2, 3, 64}), tensor("odd", DType::kI8, {7})};
  ASSERT_TRUE(write_gguf(folder_ / "tensors.gguf", metadata, tensors));
  const auto read = GgufFile::open(folder_ / "tensors.gguf");
  ASSERT_TRUE(read) << read.error().message;
  expect_same_tensors(tensors, **read);
}

TEST_F(Writers, GgufRefusesWhatReadersRefuse) {
  const fs::path path = folder_ / "refused.gguf";
  const auto refused = [&](const GgufMetadata& metadata, const std::vector<TensorView>& tensors) {
    const Status status = write_gguf(path, metadata, tensors);
    return !status && status.error().code == ErrorCode::kInvalidArgument && folder_is_empty();
  };
  const auto with = [](GgufType type, auto value) {
    GgufMetadata metadata;
    metadata.set("key", {static_cast<uint32_t>(type), value});
    return metadata;
  };
  EXPECT_TRUE(refused(with(GgufType::kU8, uint64_t{256}), {}));
  EXPECT_TRUE(refused(with(GgufType::kU32, int64_t{-1}), {}));
  EXPECT_TRUE(refused(with(GgufType::kString, uint64_t{1}), {}));
  EXPECT_TRUE(refused(with(GgufType::kF32, std::string("1")), {}));
  GgufMetadata alignment;
  alignment.set("general.alignment", {static_cast<uint32_t>(GgufType::kU32), uint64_t{0}});
  EXPECT_TRUE(refused(alignment, {}));
  EXPECT_TRUE(refused({}, {tensor("same", DType::kF32, {1}), tensor("same", DType::kF32, {2})}));
  EXPECT_TRUE(refused({}, {tensor(std::string(64, 'n'), DType::kF32, {1})}));
  EXPECT_TRUE(refused({}, {tensor("dims", DType::kF32, {1, 1, 1, 1, 1})}));
  EXPECT_TRUE(refused({}, {tensor("dtype", DType::kU8, {1})}));
  EXPECT_TRUE(refused({}, {tensor("row", DType::kQ4_0, {64, 16})}));
}

TEST_F(Writers, SafetensorsKeepTypeShapeBytesAndMetadata) {
  const std::vector<TensorView> tensors = {tensor("bytes \"é\"\n", DType::kU8, {5}), tensor("w", DType::kF32, {2, 3}),
                                           tensor("scalar", DType::kI64, {}), tensor("empty", DType::kBF16, {4, 0}),
                                           tensor("eighth", DType::kF8E4M3, {3})};
  const std::map<std::string, std::string> metadata = {{"format", "pt"}, {"odd \\", "\"quotes\""}};
  ASSERT_TRUE(write_safetensors(folder_ / "t.safetensors", tensors, metadata));
  const auto read = SafetensorsFile::open(folder_ / "t.safetensors");
  ASSERT_TRUE(read) << read.error().message;
  expect_same_tensors(tensors, **read);
  EXPECT_EQ((*read)->metadata(), metadata);
  for (const TensorView& view : (*read)->tensors()) {
    EXPECT_EQ(
        reinterpret_cast<uintptr_t>(view.bytes.data()) % static_cast<uintptr_t>(dtype_info(view.dtype).block_bytes), 0u)
        << view.name;
  }
}

TEST_F(Writers, SafetensorsOfNothingIsAFile) {
  ASSERT_TRUE(write_safetensors(folder_ / "t.safetensors", {}));
  const auto read = SafetensorsFile::open(folder_ / "t.safetensors");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE((*read)->tensors().empty());
}

TEST_F(Writers, SafetensorsRefuseWhatTheFormatLacks) {
  const auto refused = [&](const std::vector<TensorView>& tensors,
                           const std::map<std::string, std::string>& metadata = {}) {
    const Status status = write_safetensors(folder_ / "t.safetensors", tensors, metadata);
    return !status && status.error().code == ErrorCode::kInvalidArgument && folder_is_empty();
  };
  EXPECT_TRUE(refused({tensor("q", DType::kQ4_0, {32})}));
  EXPECT_TRUE(refused({tensor("__metadata__", DType::kF32, {1})}));
  EXPECT_TRUE(refused({tensor("same", DType::kF32, {1}), tensor("same", DType::kF32, {1})}));
  EXPECT_TRUE(refused({tensor("\xff", DType::kF32, {1})}));
  EXPECT_TRUE(refused({}, {{"key", "\xc3"}}));
}

TEST_F(Writers, AFailureLeavesTheOldFileAndNoPart) {
  const fs::path path = folder_ / "t.gguf";
  ASSERT_TRUE(write_gguf(path, {}, {}));
  const std::string before = bytes_of(path);
  const std::vector<TensorView> tensors = {tensor("t", DType::kF32, {4})};
  const Status status = write_gguf(
      path, {}, tensors, [](size_t, const ByteSink&) -> Status { return make_error(ErrorCode::kCancelled, "stop"); });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kCancelled);
  EXPECT_TRUE(bytes_of(path) == before);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);

  const Status nowhere = write_gguf(folder_ / "absent" / "t.gguf", {}, {});
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace quern
