// slabload generate
#include "app/checkpoint.h"
#include "app/write_report.h"
#include "backend/hdf5/sink.h"
#include "cli/verbs.h"
#include "exec/generator.h"
#include "index/table.h"

namespace slabload {

Status run_generate(Session& session, const RunOptions& options) {
  auto watchdog = session.watch(options.timeout_s, "generate");
  WriteReport report(session, "generate", options.table, options.out);
  TensorIndex table;
  std::string bytes;
  together(session.control(), [&] {
    if (!session.is_root()) return;
    TensorIndex read = read_table(options.table);
    if (options.scale > 1) scale_down(read, options.scale);
    bytes = to_bytes(read);
  });
  table = index_from_bytes(session.control().broadcast(std::move(bytes)));
  Hdf5Sink sink(options.out, session.control(), options.force);
  TransferResult result = generate(sink, session.control(), table, options.seed, watchdog.get());
  watchdog.reset();
  std::string text = report.finish(table, result);
  if (session.is_root()) print(text);
  return Status::ok;
}

}  // namespace slabload
