// slabload import
#include "app/checkpoint.h"
#include "app/write_report.h"
#include "backend/hdf5/sink.h"
#include "cli/verbs.h"
#include "exec/copier.h"

namespace slabload {

Status run_import(Session& session, const RunOptions& options) {
  auto watchdog = session.watch(options.timeout_s, "import");
  WriteReport report(session, "import", options.checkpoint, options.out);
  TensorIndex index = shared_index(session, options.checkpoint, {{}, "", "", "", {options.trust_index, options.timeout_s}});
  std::unique_ptr<Storage> source = open_storage(session, index, IoMode::independent, {});
  Hdf5Sink sink(options.out, session.control(), options.force);
  TransferResult result =
      copy_checkpoint(*source, index, sink, session.control(), options.staging, watchdog.get());
  watchdog.reset();
  std::string text = report.finish(index, result);
  if (session.is_root()) print(text);
  return Status::ok;
}

}  // namespace slabload
