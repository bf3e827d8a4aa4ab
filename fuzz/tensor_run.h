// Reads what tensors hold.
#pragma once

#include "formats/tensor_file.h"

namespace quern::fuzz {

void run_tensors(const TensorFile& file);  // the first elements of each as float32

}  // namespace quern::fuzz
