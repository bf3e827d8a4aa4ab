// Between a request's arrival and its route: who asks, may they, and how much is left for them. With people off only
// the static keys count, as ever.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "platform/people/addresses.h"
#include "platform/people/people.h"
#include "server/api_error.h"
#include "server/http/message.h"
#include "server/keys.h"
#include "server/model_table.h"
#include "server/route.h"

namespace quern {

class Gate {
 public:
  // `people` null: nobody but static keys is known. It must outlive the gate.
  // `join_tokens` are good for joining as a machine, and for nothing else.
  Gate(KeySet keys, people::People* people, std::vector<people::Network> trusted_proxies, KeySet join_tokens = {})
      : keys_(std::move(keys)),
        join_tokens_(std::move(join_tokens)),
        people_(people),
        trusted_(std::move(trusted_proxies)) {}

  bool is_open() const { return people_ == nullptr && keys_.empty(); }

  // One request's stay. What was admitted is given back when it ends.
  class Visit {
   public:
    Visit() = default;
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;
    ~Visit();

   private:
    friend class Gate;
    people::People* people_ = nullptr;  // not null: done() is owed
    const http::Reply* reply_ = nullptr;
    std::string key_;
    people::Quotas quotas_;
  };

  // Sets request.peer and request.principal. Why the request must not go on, if so.
  std::optional<ApiError> identify(http::Request& request, const Route* route, Visit& visit) const;
  // For a request that a route will get. `reply` gets the headers that tell what is left.
  std::optional<ApiError> admit(const ModelTable& models, const http::Request& request, const Route& route,
                                http::Reply& reply, Visit& visit) const;
  // Afterwards: a line of the audit log for what changes the platform.
  void record(const http::Request& request, const Route& route, int status) const;

 private:
  std::optional<ApiError> check_credential(http::Request& request, Visit& visit) const;
  void record_refusal(const http::Request& request, const std::string& what) const;

  const KeySet keys_, join_tokens_;
  people::People* const people_;
  const std::vector<people::Network> trusted_;
};

}  // namespace quern
