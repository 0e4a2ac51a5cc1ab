// slabload export
#include "app/checkpoint.h"
#include "app/write_report.h"
#include "backend/safetensors/sink.h"
#include "cli/verbs.h"
#include "exec/copier.h"

namespace slabload {

Status run_export(Session& session, const RunOptions& options) {
  auto watchdog = session.watch(options.timeout_s, "export");
  WriteReport report(session, "export", options.checkpoint, options.out);
  TensorIndex index = shared_index(session, options.checkpoint, {options.selection, "", "", "", {options.trust_index, options.timeout_s}});
  together(session.control(), [&] { refuse_skipped(index, options.selection); });
  std::unique_ptr<Storage> source = open_storage(session, index, IoMode::independent, {});
  SafetensorsSink sink(options.out, session.control(), options.max_file_bytes, options.force);
  TransferResult result =
      copy_checkpoint(*source, index, sink, session.control(), options.staging, watchdog.get());
  watchdog.reset();
  const std::size_t files = sink.files().files.size();
  std::string text = report.finish(index, result, false);
  text += fmt::format("# files {}{}\n", files, files > 1 ? " and an index" : "");
  std::vector<std::string> left_out = safetensors::metadata_left_out(index);
  if (!left_out.empty()) {
    text += fmt::format("# metadata that is not UTF-8 was left out: {} (the first: '{}')\n", left_out.size(),
                        printable(left_out.front()));
  }
  if (session.is_root()) print(text);
  return Status::ok;
}

}  // namespace slabload
