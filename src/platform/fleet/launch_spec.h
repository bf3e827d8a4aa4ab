// What a user wants to run: one model under one name, on some engine, in some number of copies. Plain data; the fleet
// (fleet.h) makes it so. Read from JSON in the words of Xinference's clients and of our own options alike.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "quern/status.h"

namespace quern {

struct LaunchAdapter {
  std::string name;
  std::string path;
};

struct LaunchSpec {
  std::string uid;               // what clients name: 1 to 128 of A-Z a-z 0-9 . _ : / @ - ; empty: made from the name
  std::string model_name;        // a catalogue's name, or anything a command takes as MODEL
  std::string model_type;        // "LLM", "embedding", "rerank", "image", "audio"; empty: the catalogue says, else LLM
  std::string model_path;        // a file or folder instead of the catalogue's source; of kind url: the address
  std::string format;            // "gguf", "safetensors" …; empty: any   (Xinference's ggufv2, pytorch are read too)
  std::string size;              // "0.5", "1_8", in billions; empty: any
  std::string quantization;      // of the file wanted; empty: the catalogue's default
  std::string engine = "quern";  // quern, vllm, sglang, llama.cpp, openai (any URL that speaks OpenAI's API)
  std::string device = "auto";   // auto, cpu, cuda:0 …
  int32_t replicas = 1;          // 0 to 64; 0: one, once a request asks
  int32_t context = 0;           // tokens of the longest sequence; 0: the model's own
  std::string kv_cache_dtype;    // empty: the engine's default
  std::vector<LaunchAdapter> adapters;
  std::map<std::string, std::string> engine_options;  // "max_num_seqs": "64"; becomes --max-num-seqs 64 of the engine
  std::map<std::string, std::string> env;
  std::map<std::string, std::string> node_labels;  // only on workers' machines that carry all of these
  int32_t priority = 0;                            // the lower goes first when another model needs the memory
  bool pinned = false;                             // never unloaded for idleness or for another model
  double keep_alive_s = -1;   // unloaded after this long without a request; -1: stays; 0 is refused
  int32_t request_limit = 0;  // requests at once, over all replicas; 0: none. One more is 429

  Json to_json() const;  // every field; from_json(to_json()) is the same spec
};

// Fields of Xinference's launch_model and ours; what is known is honoured or refused by its name, what is not known is
// an engine option when it is text, a number or a flag. Errors: kInvalidArgument ("replica: 0 is less than 1").
Result<LaunchSpec> launch_spec_from_json(const Json& body);

// A spec as the store keeps it: to_json()'s form only.
Result<LaunchSpec> stored_launch_spec(std::string_view json);

}  // namespace quern
