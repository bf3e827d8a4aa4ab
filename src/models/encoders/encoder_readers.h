// The parts of read_encoder_config().
#pragma once

#include <optional>
#include <string_view>

#include "models/config_reader.h"
#include "models/encoders/encoder_config.h"

namespace quern {

struct EncoderFamily {
  std::string_view model_type;  // config.json
  void (*read)(HfConfigReader& reader, EncoderConfig& config);
};
const EncoderFamily* find_encoder_family(std::string_view model_type);  // null when unknown

bool is_encoder_architecture(std::string_view gguf_architecture);
void read_gguf_encoder(GgufConfigReader& reader, EncoderConfig& config);

// modules.json and 1_Pooling/config.json; what they do not say stays as it is.
Status read_sentence_files(const HfFolder& folder, Pooling& pooling, bool& normalize);
// Value of a GGUF's pooling_type that means a way of pooling; nullopt for the others.
std::optional<Pooling> gguf_pooling(int64_t pooling_type);

// Relations between the numbers.
Status check_encoder_config(const EncoderConfig& config);

}  // namespace quern
