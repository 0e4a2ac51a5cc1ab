// The program: finds the verb, runs it, and turns its outcome into one line and an exit status.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <thread>

#include "app/index_child.h"
#include "backend/hdf5/handle.h"
#include "base/stop_signal.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/verbs.h"

namespace slabload {

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    fail(Status::file, "standard output cannot be written");
  }
}

namespace {

// Under a launcher, words that are wrong are wrong on every rank: only the first says so.
bool speaks() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (const char* rank = std::getenv(name)) return std::string_view(rank) == "0";
  }
  return true;
}

void complain(const std::string& message) {
  std::fprintf(stderr, "slabload: error: %s\n", message.c_str());
}

// An error that every rank finds by itself: the first says it. The launcher ends the others when one has ended, so the rest
// lets it speak before.
Status complain_once(const Error& error) {
  if (speaks()) {
    complain(error.message());
  } else {
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  return error.status();
}

Status run_alone(const RunOptions& options) {
  if (options.verb == "inspect") return run_inspect(options, speaks());
  if (options.verb == "plan") return run_plan(options, speaks());
  return run_version(speaks());
}

Status run_on_ranks(Session& session, const RunOptions& options) {
  if (options.verb == "generate") return run_generate(session, options);
  if (options.verb == "import") return run_import(session, options);
  if (options.verb == "export") return run_export(session, options);
  if (options.verb == "load") return run_load(session, options);
  if (options.verb == "save") return run_save(session, options);
  if (options.verb == "verify") return run_verify(session, options);
  return run_bench(session, options);
}

// An error that every rank holds ends the job in order, with one line from rank 0. One that only this rank
// knows of ends it at once: the others may be waiting for this rank inside a collective call.
Status run_job(const RunOptions& options) {
  note_stop_signals();
  Session session(options.timeout_s);
  try {
    return run_on_ranks(session, options);
  } catch (const Error& error) {
    if (error.agreed() || session.ranks() == 1) {
      if (session.is_root()) complain(error.message());
      return error.status();
    }
    session.end_job(error.message(), error.status());
  } catch (const std::exception& error) {
    session.end_job(std::string("internal error: ") + error.what(), Status::internal);
  }
}

Status run(const std::vector<std::string>& arguments) {
  CommandLine line;
  try {
    line = parse_command_line(arguments);
    if (line.help) {
      if (speaks()) print(help_text(line.help_topic));
      return Status::ok;
    }
  } catch (const Error& error) {
    return complain_once(error);
  }
  if (needs_mpi(line.options.verb)) return run_job(line.options);
  try {
    return run_alone(line.options);
  } catch (const Error& error) {
    return complain_once(error);
  }
}

}  // namespace
}  // namespace slabload

int main(int argc, char** argv) {
  slabload::serve_index_child(argc, argv);
  // A file size limit then shows as an error of write(2) that names the file.
  std::signal(SIGXFSZ, SIG_IGN);
  int status = 0;
  try {
    status = static_cast<int>(slabload::run({argv + 1, argv + argc}));
  } catch (const slabload::Error& error) {
    std::fprintf(stderr, "slabload: error: %s\n", error.what());
    status = static_cast<int>(error.status());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "slabload: internal error: %s\n", error.what());
    status = static_cast<int>(slabload::Status::internal);
  }
  std::fflush(nullptr);
  if (slabload::hdf5::left_open()) _exit(status);
  return status;
}
