// slabload inspect
#include "app/checkpoint.h"
#include "cli/verbs.h"
#include "report/inspect_report.h"

namespace slabload {

Status run_inspect(const RunOptions& options, bool speaks) {
  TensorIndex index = read_index(options.checkpoint, {options.trust_index, options.timeout_s});
  if (speaks)
    print(options.json ? inspect_json(index, options.tensors) + "\n" : inspect_text(index, options.tensors));
  return Status::ok;
}

}  // namespace slabload
