// The texts of data/catalog/*.json, built into the binary.
#pragma once

#include <string_view>

namespace quern {

std::string_view catalog_chat();
std::string_view catalog_code();
std::string_view catalog_vision();
std::string_view catalog_embedding();
std::string_view catalog_rerank();
std::string_view catalog_speech_to_text();
std::string_view catalog_text_to_speech();
std::string_view catalog_image();

}  // namespace quern
