// Stops a call to a worker when the client it is for leaves, or when the server's time is up.
#pragma once

#include "server/door/worker_call.h"
#include "server/http/message.h"

namespace quern::door {

// Both must outlive the hook. On the reply's strand.
class StopHook {
 public:
  StopHook(http::Reply& reply, WorkerCall& call) : signal_(reply.signal()) {
    signal_->set_hook([&reply, &call] {
      if (reply.client_gone() || reply.out_of_time()) call.stop();
    });
  }
  ~StopHook() { signal_->set_hook({}); }
  StopHook(const StopHook&) = delete;

 private:
  std::shared_ptr<http::Signal> signal_;
};

}  // namespace quern::door
