// The public door: an immutable engine that takes requests and gives streams of events.
//
//   auto engine = quern::Engine::create({.model_path = "model.gguf"});
//   auto stream = (*engine)->submit({.prompt_ids = …, .sampling = …, .max_tokens = 64});
//   while (auto event = (*stream)->next()) …
//
// Thread rule: every function may be called from any thread. Inside, one thread owns the model; submit and cancel are
// messages to it.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "quern/grammar.h"
#include "quern/status.h"

namespace quern {

struct AdapterInfo {  // a LoRA adapter: a PEFT folder or a GGUF file
  std::string name;   // what requests call it
  std::filesystem::path path;
  float scale = 1.0f;  // times the file's own (alpha / rank)
  int32_t rank = 0;    // the largest of its projections; filled in by loading
  int64_t bytes = 0;
};

struct EngineOptions {
  std::filesystem::path model_path;  // a .gguf file, split part 1, or a Hugging Face folder
  std::string device = "auto";       // auto | cpu | reference
  std::string precision = "fast";    // "fast" | "exact"
  // Floating weights are rounded at load: none | fp16 | int8 | int4 | hybrid:attention=MODE,ffn=MODE
  std::string quantization = "none";
  std::string kv_cache_dtype =
      "auto";                    // auto | f32 | f16 | bf16 | q8_0 | q4_0; auto: f16, or f32 when precision is exact
  std::string kv_cache_dtype_v;  // of values, where they shall differ from keys; empty: the same
  int32_t num_threads = 0;       // 0: physical cores this process may use
  int32_t max_model_len = 0;     // 0: the model's context length, or less when memory does not allow it
  int32_t max_num_batched_tokens = 512;  // token budget of a step
  int32_t max_num_seqs = 16;
  std::string scheduling_policy = "priority";  // priority: Request::priority, then arrival | fcfs: arrival
  int32_t long_prefill_token_threshold = 0;    // > 0: a longer prompt gets at most so much of a step while others wait
  int32_t max_num_partial_prefills = 0;        // > 0: prompts that may share a step
  double decode_pace = 1.7;  // a step of running streams takes at most so many times longer for prompts; 0: no limit
  std::string speculative_method = "ngram";  // off | ngram | suffix | draft; a request may choose another
  int32_t num_speculative_tokens =
      7;  // guesses per step and sequence, at most; with the token itself eight, as kernels like it
  std::filesystem::path speculative_model;   // a smaller model of the same vocabulary, for "draft"; empty: none
  int32_t max_waiting = 256;                 // requests beyond max_num_seqs; one more is refused (kResourceExhausted)
  std::filesystem::path kv_disk_path;        // second tier of the KV cache: a file, or a folder for one; empty: none
  int64_t kv_disk_bytes = int64_t{4} << 30;  // its bound
  double gpu_memory_utilization = 0;         // > 0: the KV cache takes this share of the memory that is free
  std::function<void(const std::string&)> on_note;  // told what was found odd and ignored, one line; may be null
  int64_t kv_cache_bytes = 0;  // 0: enough for one sequence of max_model_len and for max_num_seqs of 1024 tokens, at
                               // most a quarter of free memory. max_model_len sinks to what it holds.
  std::vector<AdapterInfo> adapters;  // loaded at start
  int32_t max_loras = 8;              // adapters at once; one more drops the one that was used longest ago
  bool enable_prefix_caching = true;  // blocks of finished requests serve later ones that begin with the same tokens
};

struct SamplingOptions {  // as SamplingParams of vLLM and llama.cpp
  float temperature = 1.0f;
  int32_t top_k = 0;
  float top_p = 1.0f;
  float min_p = 0.0f;
  float typical_p = 1.0f;
  float repetition_penalty = 1.0f;
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  float top_n_sigma = 0.0f;  // <= 0: off
  float xtc_probability = 0.0f;
  float xtc_threshold = 0.1f;
  float dry_multiplier = 0.0f;  // 0: off
  float dry_base = 1.75f;
  int32_t dry_allowed_length = 2;
  int32_t dry_penalty_last_n = -1;  // -1: the whole context
  std::vector<std::string> dry_sequence_breakers = {"\n", ":", "\"", "*"};
  int32_t mirostat = 0;  // 1 | 2: instead of what truncates
  float mirostat_tau = 5.0f;
  float mirostat_eta = 0.1f;
  std::vector<std::pair<int32_t, float>> logit_bias;
  std::optional<std::vector<int32_t>> allowed_token_ids;  // only these are drawn
  std::vector<std::string> bad_words;                     // never in the answer
  int32_t min_tokens = 0;                                 // before which no end token is drawn
  std::vector<std::string> samplers;  // order of what is applied, as llama.cpp names it; empty: ours
  std::optional<uint64_t> seed;       // absent: a fresh one, reported back in the finish event
};

// The marks around a model's reasoning, as tokens, and how many tokens it may take.
struct ThinkingOptions {
  std::vector<int32_t> start_ids, end_ids;
  bool open_in_prompt = false;  // the prompt ends inside the reasoning
  int32_t budget = -1;          // after so many tokens the reasoning is closed with end_ids; -1: no limit
};

struct Request {
  std::vector<int32_t> prompt_ids;  // used as given, no start token added; not empty
  SamplingOptions sampling;
  int32_t max_tokens = 0;               // 0: up to the context's end
  std::vector<std::string> stop;        // text that ends the answer and is not part of it
  std::vector<int32_t> stop_token_ids;  // besides the model's own end tokens
  bool ignore_eos = false;
  bool skip_special_tokens = true;  // in the text
  int32_t n = 1;                    // answers to the same prompt, sharing its KV
  int32_t priority = 0;             // smaller is served first
  bool background = false;   // nobody waits: behind all whose priority is not given; fcfs: by arrival like others
  uint64_t tenant = 0;       // tenants of one priority take turns in the queue
  std::string cache_salt;    // only requests with the same salt share prefix blocks; empty: the common ones
  bool logprobs = false;     // report how likely each token was, which takes a pass over the vocabulary
  int32_t top_logprobs = 0;  // most likely tokens to report with each token
  // Report how likely each token of the prompt was, and this many more likely ones: PromptEvents before the first token
  // of index 0. Nothing of such a prompt is taken from the prefix cache.
  std::optional<int32_t> prompt_logprobs;
  std::string adapter;         // name of a LoRA adapter; empty: the model itself
  float adapter_scale = 1.0f;  // times the adapter's own
  // Speculative decoding: "off", "ngram", "suffix" or "draft"; absent: as the engine was started. Changes how fast the
  // answer comes, never the answer.
  std::optional<std::string> speculation;
  int32_t num_speculative_tokens = 0;      // guesses per step at most; 0: as the engine was started
  std::vector<int32_t> prediction_ids;     // what the answer may look like in large parts: guesses are made from it too
  std::shared_ptr<const Grammar> grammar;  // of this engine; null: none. The answer ends when the grammar does.
  ThinkingOptions thinking;
};

enum class FinishReason : uint8_t { kStop, kLength, kCancelled, kError };
const char* finish_reason_name(FinishReason reason);  // "stop", "length", …

struct TokenEvent {   // one per generated token
  int32_t index = 0;  // which of n
  int32_t id = 0;
  float logprob = 0;                                    // 0 without Request::logprobs and top_logprobs
  std::vector<std::pair<int32_t, float>> top_logprobs;  // Request::top_logprobs of them, best first
  bool ends = false;                                    // an end token: it ends the answer and is no part of its text
  std::string text;  // text that became final with this token; may be empty (half a character, a possible stop)
};
struct PromptEvent {  // one per token of the prompt but the first, in order
  int32_t id = 0;
  float logprob = 0;
  int32_t rank = 0;                                     // 1: the most likely
  std::vector<std::pair<int32_t, float>> top_logprobs;  // Request::prompt_logprobs of them, best first
};
struct FinishEvent {  // the last event of each index
  int32_t index = 0;
  FinishReason reason = FinishReason::kStop;
  std::string text;       // text that was held back and now is final
  std::string stop_text;  // the stop string that matched, if any
  int32_t prompt_tokens = 0, output_tokens = 0, cached_tokens = 0;
  int32_t draft_tokens = 0, accepted_draft_tokens = 0;  // guessed by speculation; and right
  uint64_t seed = 0;
  double queue_seconds = 0, prefill_seconds = 0, decode_seconds = 0;
  std::optional<Error> error;  // when reason is kError
};
struct Event {
  std::chrono::steady_clock::time_point time;  // when the engine told it
  std::optional<PromptEvent> prompt;
  std::optional<TokenEvent> token;
  std::optional<FinishEvent> finish;
};

class EventStream {
 public:
  virtual ~EventStream() = default;         // destroying it cancels what still runs
  virtual std::optional<Event> next() = 0;  // blocks; nullopt after the last FinishEvent
  virtual void cancel() = 0;
  // Called (from the engine's thread) each time that next() would not block any more; for event loops. Set before
  // reading, then read until try_next() says nullopt. With events_min > 1 it is called when so many events wait or an
  // answer ends: who needs the whole answer is woken less often. When events wait already it is called at once, by the
  // caller's thread. It must not destroy the stream.
  virtual void on_ready(std::function<void()> callback, size_t events_min = 1) = 0;
  virtual std::optional<Event> try_next() = 0;
  virtual bool finished() const = 0;  // every FinishEvent was taken
};

struct EngineStats {
  int32_t running = 0, waiting = 0;
  int32_t kv_blocks_total = 0, kv_blocks_free = 0, kv_blocks_cached = 0;
  int64_t kv_positions_live = 0;  // that hold keys and values, in blocks that sequences hold; each block has 16
  uint64_t prompt_tokens_total = 0, generation_tokens_total = 0, preemptions_total = 0;
  int32_t disk_blocks = 0;                                                             // in the second tier
  uint64_t disk_hits_total = 0;                                                        // tokens that came back from it
  uint64_t drafts_total = 0, draft_tokens_total = 0, accepted_draft_tokens_total = 0;  // of speculation
  uint64_t prefix_queries_total = 0, prefix_hits_total = 0;                            // tokens
};

// Adapters come and go while requests run: whoever uses one keeps it until its answer ends. Thread-safe.
class Adapters {
 public:
  virtual ~Adapters() = default;
  // Returns when the weights are read, checked against the model and ready. kNotFound, kInvalidFile and kUnsupported
  // name the file; kInvalidArgument when the name is taken, unless `reload`.
  virtual Status load(AdapterInfo info, bool reload = false) = 0;
  virtual Status unload(const std::string& name) = 0;  // kNotFound
  virtual std::vector<AdapterInfo> list() const = 0;   // by name
};

class Engine {
 public:
  static Result<std::unique_ptr<Engine>> create(const EngineOptions& options);
  virtual ~Engine() = default;  // cancels everything and joins the engine's thread

  // Errors: kInvalidArgument naming the field; kResourceExhausted when the queue is full. A request that can never fit
  // (prompt + 1 > max_model_len, or more blocks than there are) is kInvalidArgument now, not later.
  virtual Result<std::unique_ptr<EventStream>> submit(Request request) = 0;

  // Blocks for up to about a second; a spec used lately costs nothing. kInvalidArgument names what is malformed or
  // cannot be honoured; kUnsupported: the engine has no tokenizer.
  virtual Result<std::shared_ptr<const Grammar>> compile_grammar(const GrammarSpec& spec) = 0;

  virtual Adapters& adapters() = 0;

  virtual int32_t vocab_size() const = 0;
  virtual int32_t max_model_len() const = 0;
  virtual EngineStats stats() const = 0;
};

}  // namespace quern
