// The entry points that make and end communicators, and those that only tell something.
#include <cstring>

#include "../cuda/hooks.h"
#include "api.h"
#include "handle.h"
#include "names.h"
#include "settings.h"
#include "split.h"

namespace fakenccl {
namespace {

constexpr char id_mark[] = "fake nccl id";

struct IdContent {
  char mark[sizeof id_mark];
  FileName file;
};
static_assert(sizeof(IdContent) <= NCCL_UNIQUE_ID_BYTES);

bool is_flag(int value) {
  return value == NCCL_CONFIG_UNDEF_INT || value == 0 || value == 1;
}
bool is_positive(int value) {
  return value == NCCL_CONFIG_UNDEF_INT || value > 0;
}

ncclResult_t read_config(const ncclConfig_t* config, Options& options) {
  if (!config) return ncclSuccess;
  if (config->magic != 0xcafebeef || config->size != sizeof(ncclConfig_t) ||
      config->version != NCCL_VERSION_CODE)
    return failed(ncclInvalidArgument, "ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
  if (!is_flag(config->blocking) || !is_flag(config->splitShare))
    return failed(ncclInvalidArgument, "Invalid config blocking or splitShare attribute value");
  const bool both = config->minCTAs != NCCL_CONFIG_UNDEF_INT && config->maxCTAs != NCCL_CONFIG_UNDEF_INT;
  if (!is_positive(config->minCTAs) || !is_positive(config->maxCTAs) ||
      (both && config->minCTAs > config->maxCTAs))
    return failed(ncclInvalidArgument, "Invalid config min/max channels attribute value");
  options.blocking = config->blocking != 0;
  options.split_share = config->splitShare == 1;
  return ncclSuccess;
}

ncclResult_t init(ncclComm_t* comm, int ranks, const ncclUniqueId& id, int rank, const ncclConfig_t* config) {
  forbid_in_group("ncclCommInitRankConfig");
  IdContent content;
  std::memcpy(&content, id.internal, sizeof content);
  if (!comm || ranks < 1 || rank < 0 || rank >= ranks)
    return failed(ncclInvalidArgument, text("Invalid rank requested : %d/%d", rank, ranks));
  *comm = nullptr;
  if (std::memcmp(content.mark, id_mark, sizeof id_mark) != 0)
    return failed(ncclInvalidArgument, "ncclCommInitRankConfig : commId was not made by ncclGetUniqueId");
  Options options;
  if (const ncclResult_t result = read_config(config, options); result != ncclSuccess) return result;
  if (fakecuda_device() < 0) return failed(ncclUnhandledCudaError, "Cuda failure : no device is set");

  auto communicator = std::make_shared<Communicator>(ranks, rank, options, nullptr);
  Communicator* made = communicator.get();
  *comm = add_handle(std::move(communicator));
  ncclResult_t entered = made->charge();
  if (entered == ncclSuccess) entered = made->join(content.file);
  if (ranks == 1) fakecuda_count("single_rank_communicators", 1);
  const ncclResult_t result = made->begin(
      [made, entered]() -> std::optional<ncclResult_t> {
        return entered == ncclSuccess ? made->all_joined() : entered;
      },
      [made] { return "ncclCommInitRankConfig for ranks " + made->missing_ranks() + " to join"; });
  if (result == ncclSuccess || result == ncclInProgress) return result;
  made->abort();
  made->release();
  end_handle(*comm, "its failed ncclCommInitRankConfig");
  *comm = nullptr;
  return result;
}

ncclResult_t split(ncclComm_t comm, int color, int key, ncclComm_t* newcomm, const ncclConfig_t* config) {
  forbid_in_group("ncclCommSplit");
  ncclResult_t result = ncclSuccess;
  const std::shared_ptr<Communicator> parent = ready(comm, "ncclCommSplit", result);
  if (!parent) return result;
  if (!newcomm || (color < 0 && color != NCCL_SPLIT_NOCOLOR))
    return failed(ncclInvalidArgument, text("ncclCommSplit : invalid newcomm or color %d", color));
  Options options = parent->options();
  if (result = read_config(config, options); result != ncclSuccess) return result;
  if (options.blocking != parent->options().blocking)
    fakecuda_violation("ncclCommSplit: blocking is not the same for parent and child");
  // As in the real library it stays NULL until the parent is no longer in progress.
  *newcomm = nullptr;
  const auto work = std::make_shared<Split>(parent, color, key, options, newcomm);
  return parent->begin([work] { return work->advance(); }, [work] { return work->waits_for(); });
}

ncclResult_t finalize(ncclComm_t comm) {
  forbid_in_group("ncclCommFinalize");
  ncclResult_t result = ncclSuccess;
  const std::shared_ptr<Communicator> communicator = ready(comm, "ncclCommFinalize", result);
  if (!communicator) return result;
  if (communicator->pending > 0)
    fakecuda_violation("ncclCommFinalize while operations of the communicator are pending");
  communicator->finalize();
  return communicator->begin([]() -> std::optional<ncclResult_t> { return ncclSuccess; },
                             [] { return std::string("ncclCommFinalize"); });
}

ncclResult_t destroy(ncclComm_t comm) {
  forbid_in_group("ncclCommDestroy");
  const std::shared_ptr<Communicator> communicator = find(comm, "ncclCommDestroy");
  if (!communicator) return ncclSuccess;
  if (communicator->in_progress())
    fakecuda_violation("ncclCommDestroy: use of a communicator that is still in progress");
  if (communicator->pending > 0 && !communicator->stopped())
    fakecuda_violation("ncclCommDestroy while operations of the communicator are pending");
  communicator->leave(Presence::destroyed);
  communicator->release();
  end_handle(comm, "ncclCommDestroy");
  return ncclSuccess;
}

ncclResult_t abort(ncclComm_t comm) {
  forbid_in_group("ncclCommAbort");
  const std::shared_ptr<Communicator> communicator = find(comm, "ncclCommAbort");
  if (!communicator) return ncclSuccess;
  communicator->abort();
  communicator->release();
  end_handle(comm, "ncclCommAbort");
  // It has to free what is on a device that no longer answers, and says so.
  if (settings().abort_fails && fakecuda_context_error() != 0)
    return failed(ncclUnhandledCudaError, text("Cuda failure %d", fakecuda_context_error()));
  return ncclSuccess;
}

ncclResult_t async_error(ncclComm_t comm, ncclResult_t* error) {
  const std::shared_ptr<Communicator> communicator = find(comm, "ncclCommGetAsyncError");
  if (!communicator || !error)
    return failed(ncclInvalidArgument, "CommGetAsyncError : comm or asyncError argument is NULL");
  int skip = 0;
  const int code = fakecuda_fault("async", &skip);
  if (code != 0)
    communicator->set_error(failed(static_cast<ncclResult_t>(code), "injected asynchronous error"));
  *error = skip ? ncclSuccess : communicator->poll();
  return ncclSuccess;
}

}  // namespace
}  // namespace fakenccl

using fakenccl::enter;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  if (const auto at_once = enter("ncclGetVersion")) return *at_once;
  if (!version) return fakenccl::failed(ncclInvalidArgument, "GetVersion : version argument is NULL");
  *version = fakenccl::settings().version;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (const auto at_once = enter("ncclGetUniqueId")) return *at_once;
  if (!id) return fakenccl::failed(ncclInvalidArgument, "GetUniqueId : out argument is NULL");
  fakenccl::IdContent content = {};
  std::memcpy(content.mark, fakenccl::id_mark, sizeof content.mark);
  content.file = fakenccl::make_file();
  *id = {};
  std::memcpy(id->internal, &content, sizeof content);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (const auto at_once = enter("ncclCommInitRankConfig")) return *at_once;
  return fakenccl::init(comm, ranks, id, rank, config);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config) {
  if (const auto at_once = enter("ncclCommSplit")) return *at_once;
  return fakenccl::split(comm, color, key, newcomm, config);
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (const auto at_once = enter("ncclCommFinalize")) return *at_once;
  return fakenccl::finalize(comm);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (const auto at_once = enter("ncclCommDestroy")) return *at_once;
  return fakenccl::destroy(comm);
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (const auto at_once = enter("ncclCommAbort")) return *at_once;
  return fakenccl::abort(comm);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  if (const auto at_once = enter("ncclCommGetAsyncError")) return *at_once;
  return fakenccl::async_error(comm, error);
}

// These two cannot fail; their calls are counted, and can be made to hang.
const char* ncclGetErrorString(ncclResult_t result) {
  int skip = 0;
  fakecuda_fault("ncclGetErrorString", &skip);
  fakecuda_progress();
  return fakenccl::text_of(result);
}

const char* ncclGetLastError(ncclComm_t) {
  int skip = 0;
  fakecuda_fault("ncclGetLastError", &skip);
  fakecuda_progress();
  return fakenccl::last_error();
}

}  // extern "C"
