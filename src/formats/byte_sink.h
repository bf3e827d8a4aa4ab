// How a writer gets the data of tensors that nobody holds in memory.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "quern/status.h"

namespace quern {

// Takes bytes in as many pieces as the producer likes. An error of the sink is to be returned by the producer.
using ByteSink = std::function<Status(std::span<const std::byte>)>;
using TensorProducer = std::function<Status(size_t index, const ByteSink& sink)>;

}  // namespace quern
