// generate --jsonl: one request a line on stdin, one answer a line on stdout, in the order of the requests.
#pragma once

#include "engine/engine_factory.h"
#include "generation_options.h"
#include "quern/status.h"

namespace quern::cli {

// Lines are answered while further ones are read, as many at once as the engine runs. Fields of a line are the options
// of `generate` with _ for -, and "id" comes back as it was; options of the command line hold where a line says
// nothing. A line that cannot be served is answered by {"error": …}.
Status generate_lines(const OpenedModel& model, const SamplingArgs& fallback,
                      const std::shared_ptr<const Grammar>& grammar);

}  // namespace quern::cli
