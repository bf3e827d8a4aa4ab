#include "models/adapters/adapter.h"

#include <algorithm>

#include "base/status.h"

namespace quern {

namespace {

Result<std::unique_ptr<Weight>> pack_floats(Device& device, const std::vector<float>& values, int64_t rows,
                                            int64_t cols) {
  const WeightRows part{
      .dtype = DType::kF32, .rows = rows, .cols = cols, .bytes = reinterpret_cast<const std::byte*>(values.data())};
  return device.pack({&part, 1}, 1, Precision::kExact);
}

}  // namespace

Result<std::shared_ptr<const Adapter>> Adapter::create(AdapterData data, Device& device) {
  std::shared_ptr<Adapter> adapter(new Adapter);
  adapter->data_ = std::move(data);
  for (const AdapterData::Pair& pair : adapter->data_.pairs) {
    const auto layer = static_cast<size_t>(pair.layer);
    if (adapter->layers_.size() <= layer) adapter->layers_.resize(layer + 1);
    Pair& packed = adapter->layers_[layer][static_cast<size_t>(pair.site)];
    QUERN_ASSIGN(packed.down, pack_floats(device, pair.down, pair.rank, pair.cols));
    QUERN_ASSIGN(packed.up, pack_floats(device, pair.up, pair.rows, pair.rank));
    adapter->rank_max_ = std::max(adapter->rank_max_, pair.rank);
    adapter->bytes_ += static_cast<int64_t>((pair.down.size() + pair.up.size()) * sizeof(float));
  }
  return adapter;
}

void Adapter::add_to(Device& device, int32_t layer, AdapterSite site, Mat x, float scale, Mat low, Mat delta,
                     Mat out) const {
  if (static_cast<size_t>(layer) >= layers_.size()) return;
  const Pair& pair = layers_[static_cast<size_t>(layer)][static_cast<size_t>(site)];
  if (pair.down == nullptr) return;
  const Device::MatmulTarget down{pair.down.get(), nullptr, {low.data, x.rows, pair.down->rows, pair.down->rows}};
  device.matmul(x, {&down, 1});
  const Device::MatmulTarget up{pair.up.get(), nullptr, {delta.data, x.rows, pair.up->rows, pair.up->rows}};
  device.matmul(down.out, {&up, 1});
  device.add(out, up.out, scale, out);
}

void AdapterStep::add(Device& device, AdapterSite site, Mat x, Mat out) const {
  for (const AdapterRows& part : rows) {
    part.adapter->add_to(device, layer, site, x.slice_rows(part.begin, part.count), part.scale, low, delta,
                         out.slice_rows(part.begin, part.count));
  }
}

}  // namespace quern
