// A conversation in a terminal: messages so far, settings, and one answer at a time written to stdout as it comes.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "engine/engine_factory.h"
#include "generation_options.h"
#include "quern/status.h"

namespace quern::cli {

class ChatSession {
 public:
  struct Options {
    SamplingArgs sampling;
    std::string system;           // system message; empty: what the template does by itself
    bool stop_on_sigint = false;  // SIGINT, which the caller has blocked, ends the answer and not the program
    bool show_timings = true;     // a line on stderr after each answer
  };
  ChatSession(const OpenedModel& model, Options options) : model_(model), options_(std::move(options)) {}

  // Answers `text` and adds both to the conversation. A model without a chat template continues the text as it is.
  Status answer(const std::string& text);

  void clear() { messages_ = Json::array(); }
  // "temperature 0.2", "system You are …"; kInvalidArgument names the setting.
  Status set(std::string_view assignment);
  std::string describe() const;  // settings and length of the conversation, several lines

 private:
  Result<std::vector<int32_t>> prompt_ids(const std::string& text) const;
  // Writes the pieces and reads to the end; true when the user stopped it.
  Result<bool> write_answer(EventStream& stream, std::string& text, FinishEvent& finish);
  void show_timings(const FinishEvent& finish) const;

  const OpenedModel& model_;
  Options options_;
  Json messages_ = Json::array();
  bool first_answer_ = true;
};

}  // namespace quern::cli
