// Batch jobs over HTTP: /v1/jobs.
#pragma once

#include "platform/jobs/jobs.h"
#include "server/route.h"

namespace quern::jobs {

// `jobs` must outlive the routes.
Routes routes(Jobs& jobs);

// An error of the jobs as a client reads it: a job whose state does not allow what was asked is 409.
ApiError jobs_error(const Error& error);

Json describe(const JobView& job);

// The spec that `body` says, or what the job of the name "template" in it was, with the other fields instead of its
// own.
Result<JobSpec> read_spec(Jobs& jobs, const Json& body);

}  // namespace quern::jobs
