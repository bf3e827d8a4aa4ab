// Custom models: JSON documents that a user registers, one file each below $QUERN_HOME/registrations.
//
// Two forms are read: our own (data/catalog/schema.json, one model) and Xinference's, its version 2 with `model_src`
// and the flat one with `model_id` or `model_uri`, for LLM, embedding, rerank, image and audio. A document is bytes
// from outside: bounded, and refused by the name of the field.
//
// Thread-safe, also between processes: a file appears and goes as a whole.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "platform/catalog/catalog.h"
#include "quern/status.h"

namespace quern {

struct Registration {
  std::string name;
  std::string type;  // "LLM", "embedding", "rerank", "image", "audio"
  Json document;     // as it was given
  CatalogModel model;
  std::string fault;  // of a file that cannot be read (any more), one line; then only `name` holds
};

inline constexpr size_t kRegistrationBytesMax = 1 << 20;

// What `text` says, without keeping it. `type`: which of Xinference's forms it is, without regard to case; empty: told
// by its fields. `name`: instead of the document's own, or empty. Errors: kInvalidArgument naming the field.
Result<Registration> parse_registration(std::string_view text, std::string_view type = {}, std::string_view name = {});

// The same, and keeps it. kInvalidArgument too when the name is taken, by a built-in model or another registration.
Result<Registration> register_model(std::string_view text, std::string_view type = {}, std::string_view name = {});

// kNotFound when there is none of this name (of this type, where one is given).
Status unregister_model(std::string_view name, std::string_view type = {});

std::vector<Registration> list_registrations();  // by name

}  // namespace quern
