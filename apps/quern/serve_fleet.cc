#include "serve_fleet.h"

#include <filesystem>

#include "platform/home.h"

namespace quern::cli {

void add_fleet_options(CLI::App& command, ServeFleetOptions& options) {
  CLI::Option* on =
      command.add_flag("--fleet", options.on,
                       "also run models in processes of their own, as launched; the default when no MODEL is named");
  command.add_flag("--no-fleet", options.off, "serve the named models only")->excludes(on);
  command
      .add_option_function<int64_t>(
          "--load-timeout",
          [&options](const int64_t& seconds) { options.load_timeout = std::chrono::seconds(seconds); },
          "seconds a request waits for its model of the fleet to load")
      ->check(CLI::Range(int64_t{0}, int64_t{86400}))
      ->default_str(std::to_string(options.load_timeout.count() / 1000));
  command
      .add_option("--fleet-memory", options.memory_budget_bytes,
                  "memory for models of the fleet on this machine, as 8GB; 0: what is free, less a reserve")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  command.add_flag("--stop-workers", options.stop_workers,
                   "the fleet's processes end with the server; without it they stay and the next one takes them over");
}

bool wants_fleet(const ServeFleetOptions& options, bool any_model) {
  return !options.off && (options.on || !any_model);
}

std::unique_ptr<Fleet> open_fleet(const ServeFleetOptions& options, const Log& log) {
  FleetOptions fleet;
  std::error_code error;
  fleet.folder = quern_home() / "fleet";
  fleet.program = std::filesystem::read_symlink("/proc/self/exe", error);
  fleet.memory_budget_bytes = options.memory_budget_bytes;
  fleet.stop_workers_at_end = options.stop_workers;
  fleet.log = [&log](const std::string& note) { log.write(LogLevel::kInfo, note); };
  auto opened = Fleet::open(std::move(fleet));
  if (opened) return std::move(*opened);
  log.write(LogLevel::kWarning, "no models can be launched: " + opened.error().message);
  return nullptr;
}

}  // namespace quern::cli
