// What the operating system knows of this process, as Prometheus text.
#pragma once

#include <string>

namespace quern {

void render_process(std::string& out);

}  // namespace quern
