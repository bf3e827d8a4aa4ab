// libFuzzer's door: QUERN_FUZZ_TARGET names the target. `--write-seeds DIR` as the only arguments writes its seeds.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "seeds.h"
#include "targets.h"

namespace {

const quern::fuzz::Target* chosen = nullptr;

int write_seeds(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  for (const auto& seed : quern::fuzz::seeds_of(chosen->name)) {
    std::ofstream(folder / seed.name, std::ios::binary)
        .write(seed.bytes.data(), static_cast<std::streamsize>(seed.bytes.size()));
  }
  return 0;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const char* name = std::getenv("QUERN_FUZZ_TARGET");
  chosen = quern::fuzz::find_target(name == nullptr ? "" : name);
  if (chosen == nullptr) {
    std::fprintf(stderr, "QUERN_FUZZ_TARGET must be one of");
    for (const auto& target : quern::fuzz::targets()) std::fprintf(stderr, " %s", std::string(target.name).c_str());
    std::fprintf(stderr, "\n");
    std::exit(2);
  }
  if (*argc == 3 && std::string_view((*argv)[1]) == "--write-seeds") std::exit(write_seeds((*argv)[2]));
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  chosen->run({reinterpret_cast<const char*>(data), size});
  return 0;
}
