// Brings a model to this machine, or finds it here.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "platform/catalog/catalog.h"
#include "platform/store.h"
#include "quern/status.h"

namespace quern {

// bytes of the file that is under way; called from the calling thread.
using PullProgress = std::function<void(const std::string& file, int64_t done, int64_t total)>;

// Downloads what `model` names (platform/model_name.h) into the store, unless it is there already. A local file or
// folder is copied. Two pulls of one model: the second waits for the first. Every byte goes below $QUERN_HOME/models.
Result<StoredModel> pull_model(const std::string& model, const PullProgress& progress);

// The path to load: a path as it is, a pulled model from the store (or from Hugging Face's own cache), anything else is
// pulled first.
Result<std::filesystem::path> resolve_model(const std::string& model, const PullProgress& progress);

// The stored model that `model` names: its key, its name, or a catalogue name with or without its tag. kNotFound
// otherwise.
Result<StoredModel> find_stored(const std::string& model);

// Where the files of a catalogue's model are on this machine: pulled, or a custom model's own path. kNotFound
// otherwise.
Result<std::filesystem::path> find_local(const CatalogModel& model, const CatalogVariant& variant);

}  // namespace quern
