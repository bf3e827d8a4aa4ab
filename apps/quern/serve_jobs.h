// The jobs of `quern serve`: where the queue is, and the executor of XXL-JOB.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>

#include "server/app.h"
#include "server/xxljob/executor.h"

namespace quern::cli {

struct ServeJobsOptions {
  std::string folder;  // --jobs-folder
  std::vector<std::string> xxl_admins;
  std::string xxl_app, xxl_token_file, xxl_address;
  std::string xxl_listen = "127.0.0.1:9999";
};

void add_jobs_options(CLI::App& command, ServeJobsOptions& options);

// `store_path` as the user wrote it: a store of its own has jobs of its own.
Status set_jobs_options(const ServeJobsOptions& options, const std::string& store_path, AppOptions& app);

// Null when no admin is named. App, fleet (or null) and log must outlive it.
Result<std::unique_ptr<xxljob::Executor>> start_xxl_executor(const ServeJobsOptions& options, App& app, Fleet* fleet,
                                                             const Log& log);

}  // namespace quern::cli
