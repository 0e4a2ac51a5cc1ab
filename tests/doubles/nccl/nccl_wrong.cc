// Programs that use NCCL wrongly: each must end in a violation that names the fault, in every mode.
#include "handles.h"

namespace doubles {
namespace {

std::size_t index(int rank) {
  return static_cast<std::size_t>(rank);
}

// What most cases need: a communicator, two streams, and memory that holds this rank's part of 100 bytes.
struct Setup {
  explicit Setup(World& world, ncclConfig_t with = config(true))
      : all(part * index(world.ranks)), comm(world, with) {
    all.write(part * index(world.rank), pattern(world.rank, part));
    own = all.at(part * index(world.rank));
    other = all.at(part * index((world.rank + 1) % world.ranks));
  }
  ncclResult_t gather(std::size_t count = part) {
    return ncclAllGather(own, all, count, ncclInt8, comm, stream);
  }

  static constexpr std::size_t part = 100;
  Memory all;
  Stream stream, second;
  Event event;
  Comm comm;
  std::byte* own = nullptr;
  std::byte* other = nullptr;
};

void in_place_offset(World& world) {
  Setup with(world);
  check(ncclAllGather(with.all, with.all, 100, ncclInt8, with.comm, with.stream));
  with.stream.wait();
}

void broadcast_in_place_offset(World& world) {
  Setup with(world);
  check(ncclBroadcast(with.all.at(1), with.all, 99, ncclInt8, world.rank, with.comm, with.stream));
  with.stream.wait();
}

void count_mismatch(World& world) {
  Setup with(world);
  check(ncclBroadcast(with.own, with.own, world.rank == 0 ? 100 : 99, ncclInt8, 0, with.comm, with.stream));
  with.stream.wait();
}

void type_mismatch(World& world) {
  Setup with(world);
  check(ncclBroadcast(with.own, with.own, 10, world.rank == 0 ? ncclInt8 : ncclInt32, 0, with.comm,
                      with.stream));
  with.stream.wait();
}

void kind_mismatch(World& world) {
  Setup with(world);
  if (world.rank == 0)
    check(ncclBroadcast(with.own, with.own, 100, ncclInt8, 0, with.comm, with.stream));
  else
    check(with.gather());
  with.stream.wait();
}

void root_mismatch(World& world) {
  Setup with(world);
  check(ncclBroadcast(with.own, with.own, 100, ncclInt8, world.rank, with.comm, with.stream));
  with.stream.wait();
}

void zero_count_on_one_rank(World& world) {
  Setup with(world);
  check(with.gather(world.rank == 0 ? 0 : 100));
  with.stream.wait();
}

void transfer_count_mismatch(World& world) {
  Setup with(world);
  if (world.rank == 0) check(ncclSend(with.own, 100, ncclInt8, 1, with.comm, with.stream));
  if (world.rank == 1) check(ncclRecv(with.other, 50, ncclInt8, 0, with.comm, with.stream));
  with.stream.wait();
}

void transfers_swapped(World& world) {
  Setup with(world);
  check(ncclGroupStart());
  if (world.rank == 0) {
    check(ncclSend(with.all, 30, ncclInt8, 1, with.comm, with.stream));
    check(ncclSend(with.all.at(30), 40, ncclInt8, 1, with.comm, with.stream));
  } else {
    check(ncclRecv(with.all, 40, ncclInt8, 0, with.comm, with.stream));
    check(ncclRecv(with.all.at(40), 30, ncclInt8, 0, with.comm, with.stream));
  }
  check(ncclGroupEnd());
  with.stream.wait();
}

void out_of_bounds(World& world) {
  Setup with(world);
  check(ncclBroadcast(with.all.at(1), with.all.at(1), with.all.bytes(), ncclInt8, 0, with.comm, with.stream));
  with.stream.wait();
}

void swapped_communicators(World& world) {
  Setup with(world);
  Comm child(with.comm, 0, world.rank);
  ncclComm_t first = world.rank == 0 ? with.comm : child;
  ncclComm_t second = world.rank == 0 ? child : with.comm;
  check(ncclAllGather(with.own, with.all, 100, ncclInt8, first, with.stream));
  check(ncclAllGather(with.own, with.all, 100, ncclInt8, second, with.stream));
  with.stream.wait();
}

void swapped_independent_communicators(World& world) {
  Setup with(world);
  Comm other(world);
  ncclComm_t first = world.rank == 0 ? with.comm : other;
  ncclComm_t second = world.rank == 0 ? other : with.comm;
  check(ncclAllGather(with.own, with.all, 100, ncclInt8, first, with.stream));
  check(ncclAllGather(with.own, with.all, 100, ncclInt8, second, with.stream));
  with.stream.wait();
}

void mutual_send_without_group(World& world) {
  Setup with(world);
  check(ncclSend(with.own, 100, ncclInt8, 1 - world.rank, with.comm, with.stream));
  check(ncclRecv(with.other, 100, ncclInt8, 1 - world.rank, with.comm, with.stream));
  with.stream.wait();
}

void missing_participant(World& world) {
  Setup with(world);
  if (world.rank > 0) check(with.gather());
  with.event.record(with.stream);
  with.event.wait();
  world.barrier();
}

void missing_split(World& world) {
  Setup with(world);
  if (world.rank == 0) Comm child(with.comm, 0, 0);
  world.barrier();
}

void missing_joiner(World& world) {
  const ncclUniqueId id = world.unique_id();
  ncclComm_t comm = nullptr;
  if (world.rank == 0) check(ncclCommInitRankConfig(&comm, world.ranks, id, 0, nullptr));
  world.barrier();
}

void leaked_communicator(World& world) {
  Stream stream;
  ncclConfig_t with = config(true);
  ncclComm_t comm = nullptr;
  check(ncclCommInitRankConfig(&comm, world.ranks, world.unique_id(), world.rank, &with));
}

void missing_event(World& world) {
  Setup with(world);
  std::byte* pinned = nullptr;
  check(cudaHostAlloc(reinterpret_cast<void**>(&pinned), 100, 0));
  check(cudaMemcpyAsync(with.own, pinned, 100, cudaMemcpyHostToDevice, with.second));
  check(with.gather());
  with.stream.wait();
}

void read_back_too_early(World& world) {
  Setup with(world);
  check(with.gather());
  with.all.read(0, 100 * index(world.ranks));
}

void changed_while_sent(World& world) {
  Setup with(world);
  if (world.rank == 0) {
    check(ncclSend(with.own, 100, ncclInt8, 1, with.comm, with.stream));
    check(cudaMemsetAsync(with.own, 0, 100, with.second));
  } else {
    check(ncclRecv(with.other, 100, ncclInt8, 0, with.comm, with.stream));
  }
  with.stream.wait();
}

void freed_while_pending(World& world) {
  Setup with(world);
  {
    Memory memory(100 * index(world.ranks));
    memory.write(100 * index(world.rank), pattern(world.rank, 100));
    check(ncclAllGather(memory.at(100 * index(world.rank)), memory, 100, ncclInt8, with.comm, with.stream));
  }
  with.stream.wait();
}

void use_after_destroy(World& world) {
  Setup with(world);
  ncclComm_t child = nullptr;
  check(ncclCommSplit(with.comm, 0, world.rank, &child, nullptr));
  check(ncclCommDestroy(child));
  ncclAllGather(with.own, with.all, 100, ncclInt8, child, with.stream);
}

// The parent is settled, the child is not.
void use_of_unsettled_child(World& world) {
  Setup with(world, config(false, true));
  ncclComm_t child = nullptr;
  settle(with.comm, ncclCommSplit(with.comm, 0, world.rank, &child, nullptr));
  ncclAllGather(with.own, with.all, 100, ncclInt8, child, with.stream);
}

void use_after_abort_of_family(World& world) {
  Setup with(world, config(true, true));
  Comm child(with.comm, 0, world.rank);
  with.comm.abort();
  ncclAllGather(with.own, with.all, 100, ncclInt8, child, with.stream);
}

void use_after_finalize(World& world) {
  Setup with(world);
  check(ncclCommFinalize(with.comm));
  with.gather();
}

void destroyed_while_pending(World& world) {
  Setup with(world);
  check(with.gather());
  with.event.record(with.stream);
}

void id_used_twice(World& world) {
  ncclConfig_t with = config(false);
  const ncclUniqueId id = world.unique_id();
  ncclComm_t first = nullptr, second = nullptr;
  if (world.rank > 0) ncclCommInitRankConfig(&first, world.ranks, id, 1, &with);
  if (world.rank > 0) ncclCommInitRankConfig(&second, world.ranks, id, 1, &with);
  world.barrier();
}

void group_too_big(World& world) {
  Setup with(world);
  check(ncclGroupStart());
  for (int i = 0; i < 257; ++i)
    check(ncclSend(with.own, 1, ncclInt8, 1 - world.rank, with.comm, with.stream));
  check(ncclGroupEnd());
  with.stream.wait();
}

void two_communicators_in_group(World& world) {
  Setup with(world);
  Comm child(with.comm, 0, world.rank);
  check(ncclGroupStart());
  check(ncclBroadcast(with.own, with.own, 1, ncclInt8, 0, with.comm, with.stream));
  check(ncclBroadcast(with.own, with.own, 1, ncclInt8, 0, child, with.stream));
  check(ncclGroupEnd());
  with.stream.wait();
}

void dependency_in_group(World& world) {
  Setup with(world);
  check(ncclGroupStart());
  check(ncclBroadcast(with.all, with.all, 10, ncclInt8, 0, with.comm, with.stream));
  check(ncclBroadcast(with.all, with.all, 10, ncclInt8, 1, with.comm, with.stream));
  check(ncclGroupEnd());
  with.stream.wait();
}

void two_communicators_at_once(World& world) {
  Setup with(world);
  Comm child(with.comm, 0, world.rank);
  Memory second(100 * index(world.ranks));
  second.write(100 * index(world.rank), pattern(world.rank, 100));
  check(with.gather());
  check(ncclAllGather(second.at(100 * index(world.rank)), second, 100, ncclInt8, child, with.second));
  with.stream.wait();
  with.second.wait();
}

// The same stream doesn't help while the first is not yet in it.
void next_communicator_too_early(World& world) {
  Setup with(world, config(false));
  Comm other(world, config(false));
  check(with.gather() == ncclInProgress ? ncclSuccess : ncclInternalError);
  ncclBroadcast(with.own, with.own, 1, ncclInt8, 0, other, with.stream);
}

void used_in_progress(World& world) {
  Setup with(world, config(false));
  const ncclResult_t result = with.gather();
  need(result == ncclInProgress, "must be in progress");
  with.gather();
}

void used_before_joined(World& world) {
  Setup with(world);
  ncclConfig_t other = config(false);
  ncclComm_t comm = nullptr;
  const ncclUniqueId id = world.unique_id();
  need(ncclCommInitRankConfig(&comm, world.ranks, id, world.rank, &other) == ncclInProgress,
       "must be in progress");
  ncclAllGather(with.own, with.all, 100, ncclInt8, comm, with.stream);
}

// The event is recorded before the group is in the stream, so it says nothing about it.
void event_before_launch(World& world) {
  Setup with(world, config(false));
  const ncclResult_t result = with.gather();
  with.event.record(with.stream);
  settle(with.comm, result);
  check(cudaStreamWaitEvent(with.second, with.event, 0));
  check(cudaMemsetAsync(with.other, 0, 100, with.second));
  with.stream.wait();
  with.second.wait();
}

void abort_within_group(World& world) {
  Setup with(world);
  check(ncclGroupStart());
  with.gather();
  with.comm.abort();
}

const std::vector<Case> cases = {
    {"in_place_offset", in_place_offset, {2}, "in place, rank 1 must send from 100 bytes behind"},
    {"broadcast_in_place_offset", broadcast_in_place_offset, {2}, "must send from 0 bytes behind"},
    {"count_mismatch", count_mismatch, {2}, "ncclBroadcast of 99 x ncclInt8"},
    {"type_mismatch", type_mismatch, {2}, "ncclBroadcast of 10 x ncclInt32"},
    {"kind_mismatch", kind_mismatch, {2}, "collectives #0 of communicator "},
    {"root_mismatch", root_mismatch, {2}, "root 1"},
    {"zero_count_on_one_rank", zero_count_on_one_rank, {2}, "ncclAllGather of 0 x"},
    {"transfer_count_mismatch",
     transfer_count_mismatch,
     {2},
     "transfers #0 from rank 0 to rank 1 of communicator"},
    {"transfers_swapped", transfers_swapped, {2}, "transfers #0 from rank 0 to rank 1 of communicator"},
    {"out_of_bounds", out_of_bounds, {2}, "out of bounds"},
    {"swapped_communicators", swapped_communicators, {2}, "deadlock"},
    {"swapped_independent_communicators", swapped_independent_communicators, {2}, "deadlock"},
    {"mutual_send_without_group", mutual_send_without_group, {2}, "deadlock"},
    {"missing_participant", missing_participant, {3}, "rank 0, which has not issued it"},
    {"missing_split", missing_split, {2}, "for ranks 1"},
    {"missing_joiner", missing_joiner, {3}, "for ranks 1, 2 to join"},
    {"leaked_communicator", leaked_communicator, {2}, "leaked communicator"},
    {"missing_event", missing_event, {2}, "not ordered: ncclAllGather"},
    {"read_back_too_early", read_back_too_early, {2}, "not ordered: cudaMemcpy"},
    {"changed_while_sent", changed_while_sent, {2}, "not ordered: cudaMemsetAsync"},
    {"freed_while_pending", freed_while_pending, {2}, "cudaFree while ncclAllGather"},
    {"use_after_destroy",
     use_after_destroy,
     {2},
     "ncclAllGather: use of a communicator after ncclCommDestroy"},
    {"use_of_unsettled_child", use_of_unsettled_child, {2}, "still in progress"},
    {"use_after_abort_of_family", use_after_abort_of_family, {2}, "whose family was aborted"},
    {"use_after_finalize", use_after_finalize, {2}, "after ncclCommFinalize"},
    {"destroyed_while_pending", destroyed_while_pending, {2}, "ncclCommDestroy while operations"},
    {"id_used_twice", id_used_twice, {2}, "one unique id was used twice"},
    {"group_too_big", group_too_big, {2}, "more than 256 operations"},
    {"two_communicators_in_group",
     two_communicators_in_group,
     {2},
     "a group has operations of two communicators"},
    {"dependency_in_group", dependency_in_group, {2}, "depends on the memory of another operation"},
    {"two_communicators_at_once",
     two_communicators_at_once,
     {2},
     "of another communicator is pending on another stream"},
    {"next_communicator_too_early", next_communicator_too_early, {2}, "pending and in progress"},
    {"used_in_progress", used_in_progress, {2}, "still in progress"},
    {"used_before_joined", used_before_joined, {2}, "still in progress"},
    {"event_before_launch", event_before_launch, {2}, "not ordered"},
    {"abort_within_group", abort_within_group, {2}, "ncclCommAbort between ncclGroupStart and ncclGroupEnd"},
};

}  // namespace
}  // namespace doubles

int main(int count, char** arguments) {
  return doubles::run_cases(doubles::cases, count - 1, arguments + 1);
}
