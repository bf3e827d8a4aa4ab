// What must hold of the arguments of each operation, checked alike by every device. A failed check aborts.
#pragma once

#include "kernels/device.h"

namespace quern::checks {

void same_shape(Mat x, Mat out);
void embed(const Weight& table, std::span<const int32_t> ids, Mat out);
void matmul(Mat x, std::span<const Device::MatmulTarget> targets);
void matmul_experts(Mat x, const Weight& weight, std::span<const ExpertRows> groups, Mat out);
void norm(Mat x, const Device::NormSpec& spec, Mat out);
void rope(Mat x, const Device::RopeSpec& spec, Mat cosine, Mat sine);
void write_kv(Mat key, Mat value, std::span<const int32_t> slots, const KvStorage& storage, int32_t layer);
void copy_kv_block(const KvStorage& storage, int32_t source, int32_t target);
void attention(Mat query, const KvStorage& storage, int32_t layer, std::span<const SequenceSpan> sequences,
               const AttentionSpec& spec, Mat out);
void attention_full(Mat query, Mat key, Mat value, int32_t num_kv_heads, std::span<const SequenceSpan> sequences,
                    const AttentionSpec& spec, Mat out);
void gather_rows(Mat x, std::span<const int32_t> rows, Mat out);
void scale_rows(Mat x, std::span<const float> factors, Mat out);
void route(Mat logits, const RouterSpec& spec, std::span<int32_t> ids, std::span<float> weights);
void combine_experts(Mat x, std::span<const float> weights, int32_t top_k, Mat out);

}  // namespace quern::checks
