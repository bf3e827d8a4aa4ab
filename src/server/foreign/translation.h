// A request in words that a worker's engine does not know, said in words that it does, and the answer back. Engines
// that are not ours speak OpenAI's API, each with gaps of its own; what a client reads is the same whichever answers.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "server/api_error.h"
#include "server/route.h"

namespace quern::foreign {

struct Asked {
  std::string engine;       // of the worker, as LaunchSpec::engine
  std::string_view path;    // of the client's request
  const Json& body;         // an object
  std::string shown_name;   // what the client calls the model
  std::string worker_name;  // what the worker calls it
  int64_t context = 0;      // tokens, as the launch says; 0: not known
};

class Translation {
 public:
  Translation(std::string to_path, Json to_body) : path(std::move(to_path)), body(std::move(to_body)) {}
  virtual ~Translation() = default;

  const std::string path;       // that the worker is asked, by POST
  const Json body;              // `model` included
  bool is_stream = false;       // the client wants one, and the worker is asked for one
  bool answers_itself = false;  // nobody is asked: whole() of null is the answer
  bool keeps_answer = false;    // it is the client's as it comes; none of the functions below is called

  // Of an answer of status 2xx.
  virtual ApiResult<Json> whole(const Json& answer) = 0;

  // Of a stream: its type, what comes before the first event, of each event, and behind the last.
  virtual const char* stream_type() const { return "text/event-stream; charset=utf-8"; }
  virtual std::string begin() { return ""; }
  virtual ApiResult<std::string> event(const Json&) { return ""; }
  virtual ApiResult<std::string> end() { return ""; }
};

// Is the engine one whose words may have to be translated? Not ours.
bool is_foreign(std::string_view engine);
// Might translate() have something to say of the request? `body` is not read as JSON. `context` as in Asked.
bool may_need_translation(std::string_view engine, std::string_view path, std::string_view body, int64_t context);
// Null: the worker understands the request as it is. Errors name the field that the engine cannot honour.
ApiResult<std::unique_ptr<Translation>> translate(const Asked& asked);

// A worker's stream of events on its way through a translation.
class StreamTranslator {
 public:
  StreamTranslator(Translation& translation, ErrorBody error_event)
      : translation_(translation), error_event_(error_event) {}

  std::string push(std::string_view bytes);        // what to send on
  std::string finish();                            // at the end of the worker's answer
  bool has_failed() const { return has_failed_; }  // its last word was an error

 private:
  std::string line(std::string_view line);
  std::string fail(const ApiError& error);

  Translation& translation_;
  const ErrorBody error_event_;
  std::string held_;
  bool has_begun_ = false, has_failed_ = false;
};

}  // namespace quern::foreign
