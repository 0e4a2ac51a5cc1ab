// The entry points that move data.
#include "api.h"
#include "group.h"
#include "names.h"

namespace fakenccl {
namespace {

struct GroupCall {
  int depth = 0;
  ncclResult_t error = ncclSuccess;
  std::unique_ptr<Group> group;
};

GroupCall& current() {
  static auto* const call = new GroupCall;
  return *call;
}

ncclResult_t check_arguments(const Communicator& communicator, const Signature& signature, int peer,
                             const void* send, const void* receive) {
  const std::string name = name_of(signature.kind);
  const bool collective = signature.kind == Kind::all_gather || signature.kind == Kind::broadcast;
  const int other = signature.kind == Kind::broadcast ? signature.root : peer;
  if (signature.kind != Kind::all_gather && (other < 0 || other >= communicator.ranks()))
    return failed(ncclInvalidArgument,
                  text("%s : invalid root or peer %d (root should be in the 0..%d range)", name.c_str(),
                       other, communicator.ranks() - 1));
  const std::uint64_t size = size_of(signature.type);
  if (size == 0)
    return failed(ncclInvalidArgument, text("%s : invalid type %d", name.c_str(), signature.type));
  if (signature.count > UINT64_MAX / size / static_cast<std::uint64_t>(communicator.ranks()))
    return failed(ncclInvalidArgument, name + " : invalid count");
  const bool reads = signature.kind == Kind::all_gather || signature.kind == Kind::send ||
                     (signature.kind == Kind::broadcast && signature.root == communicator.rank());
  const bool writes = collective || signature.kind == Kind::receive;
  if (signature.count > 0 && ((reads && !send) || (writes && !receive)))
    return failed(ncclInvalidArgument, name + " : a buffer is NULL");
  return ncclSuccess;
}

ncclResult_t add(const Signature& signature, int peer, const void* send, void* receive, ncclComm_t handle,
                 cudaStream_t stream) {
  const char* function = name_of(signature.kind);
  ncclResult_t result = ncclSuccess;
  const std::shared_ptr<Communicator> communicator = ready(handle, function, result);
  if (communicator) result = check_arguments(*communicator, signature, peer, send, receive);
  if (result != ncclSuccess) return result;
  std::unique_ptr<Group> alone;
  std::unique_ptr<Group>& group = in_group() ? current().group : alone;
  if (!group) group = std::make_unique<Group>(communicator, stream);
  group->add(Operation(*communicator, signature, peer, send, receive), *communicator, stream);
  return alone ? Group::launch(std::move(alone)) : ncclSuccess;
}

ncclResult_t call(Signature signature, int peer, const void* send, void* receive, ncclComm_t handle,
                  cudaStream_t stream) {
  const NothingEnds held;
  const std::optional<ncclResult_t> at_once = enter(name_of(signature.kind));
  const ncclResult_t result = at_once ? *at_once : add(signature, peer, send, receive, handle, stream);
  if (in_group() && result != ncclSuccess) current().error = result;
  return result;
}

ncclResult_t end_group() {
  GroupCall& call = current();
  if (call.depth == 0) return failed(ncclInvalidUsage, "ncclGroupEnd: not in a group call.");
  if (--call.depth > 0) return ncclSuccess;
  std::unique_ptr<Group> group = std::move(call.group);
  const ncclResult_t error = call.error;
  call.error = ncclSuccess;
  if (error != ncclSuccess || !group) return error;
  return Group::launch(std::move(group));
}

}  // namespace

bool in_group() {
  return current().depth > 0;
}

}  // namespace fakenccl

using fakenccl::Kind;

extern "C" {

ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype,
                           ncclComm_t comm, cudaStream_t stream) {
  return fakenccl::call({Kind::all_gather, datatype, -1, sendcount}, -1, sendbuff, recvbuff, comm, stream);
}

ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return fakenccl::call({Kind::broadcast, datatype, root, count}, -1, sendbuff, recvbuff, comm, stream);
}

ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return fakenccl::call({Kind::send, datatype, -1, count}, peer, sendbuff, nullptr, comm, stream);
}

ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return fakenccl::call({Kind::receive, datatype, -1, count}, peer, nullptr, recvbuff, comm, stream);
}

ncclResult_t ncclGroupStart() {
  const fakenccl::NothingEnds held;
  if (const auto at_once = fakenccl::enter("ncclGroupStart")) return *at_once;
  ++fakenccl::current().depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  const fakenccl::NothingEnds held;
  const auto at_once = fakenccl::enter("ncclGroupEnd");
  if (at_once == ncclSuccess) return ncclSuccess;
  // A call that fails closes the group all the same.
  if (at_once && fakenccl::in_group()) fakenccl::current().error = *at_once;
  const ncclResult_t result = fakenccl::end_group();
  return at_once.value_or(result);
}

}  // extern "C"
