// The agent of a machine that runs models for another machine's fleet: joins its server, tells it once a second what
// runs here, and makes its own fleet run what the server wishes.
//
// While the server cannot be reached, what runs goes on serving and the agent tries again, after 0.5 s, 1, at most 2.
// A server that does not know the machine any more is joined again.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "platform/fleet/node.h"

namespace quern {

struct NodeAgentOptions {
  std::string server;   // "https://quern.example:9997"
  std::string token;    // of the server, for joining
  std::string ca_file;  // PEM of authorities trusted for it; empty: the system's
  NodeJoin join;        // its machine is filled in
  std::chrono::milliseconds interval{1000};
  std::function<void(const std::string&)> log;
};

class NodeAgent {
 public:
  // Waits for the first try to join. kPermissionDenied: the server refuses the token; anything else that goes wrong may
  // pass, and is tried again. The fleet must outlive the agent, and nobody else may launch models in it.
  static Result<std::unique_ptr<NodeAgent>> start(Fleet& fleet, NodeAgentOptions options);
  virtual ~NodeAgent() = default;  // stops telling; what runs goes on
};

}  // namespace quern
