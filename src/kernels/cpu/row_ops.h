// Bodies of the CPU device's operations on rows: norms, rotary embedding, elementwise, experts. Contracts are those of
// the operations of Device with the same names; arguments have been checked.
#pragma once

#include "hardware/thread_pool.h"
#include "kernels/device.h"

namespace quern::cpu {

void rms_norm(ThreadPool& pool, Mat x, const Device::NormSpec& spec, Mat out);
void layer_norm(ThreadPool& pool, Mat x, const Device::NormSpec& spec, Mat out);
void rope(ThreadPool& pool, Mat x, const Device::RopeSpec& spec, Mat cosine, Mat sine);

void activate(ThreadPool& pool, Mat x, Activation kind, Mat out);
void activate_multiply(ThreadPool& pool, Mat gate, Mat up, Activation kind, Mat out);
void swiglu_clamped(ThreadPool& pool, Mat gate, Mat up, float limit, Mat out);
void add(ThreadPool& pool, Mat x, Mat y, float y_scale, Mat out);
void add_row(ThreadPool& pool, Mat x, const float* row, Mat out);
void scale(ThreadPool& pool, Mat x, float factor, Mat out);
void scale_rows(ThreadPool& pool, Mat x, std::span<const float> factors, Mat out);
void softcap(ThreadPool& pool, Mat x, float cap, Mat out);
void gather_rows(ThreadPool& pool, Mat x, std::span<const int32_t> rows, Mat out);
void copy(ThreadPool& pool, Mat x, Mat out);

// scratch grows to [threads, 2 * (experts + groups)] and is kept by the caller.
void route(ThreadPool& pool, Mat logits, const RouterSpec& spec, std::span<int32_t> ids, std::span<float> weights,
           std::vector<float>& scratch);
void combine_experts(ThreadPool& pool, Mat x, std::span<const float> weights, int32_t top_k, Mat out);

}  // namespace quern::cpu
