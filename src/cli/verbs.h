// One function per verb. Each returns the exit status or throws Error; output to stdout comes from rank 0
// alone.
#pragma once

#include "app/options.h"
#include "app/session.h"
#include "base/error.h"

namespace slabload {

// Without MPI; started on several ranks all the same, only one speaks.
Status run_inspect(const RunOptions& options, bool speaks);
Status run_plan(const RunOptions& options, bool speaks);
Status run_version(bool speaks);

// Collective over the session's ranks.
Status run_generate(Session& session, const RunOptions& options);
Status run_import(Session& session, const RunOptions& options);
Status run_export(Session& session, const RunOptions& options);
Status run_load(Session& session, const RunOptions& options);
Status run_save(Session& session, const RunOptions& options);
Status run_verify(Session& session, const RunOptions& options);
Status run_bench(Session& session, const RunOptions& options);

// Writes to stdout; throws Status::file if that fails.
void print(const std::string& text);

}  // namespace slabload
