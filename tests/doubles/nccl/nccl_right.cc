// Programs that use NCCL as one should: each must run through, with the right bytes, in every mode.
#include <signal.h>
#include <sys/wait.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "handles.h"

namespace doubles {
namespace {

std::size_t index(int rank) {
  return static_cast<std::size_t>(rank);
}

void all_gather_in_place(World& world) {
  Comm comm(world);
  Stream stream;
  for (const std::size_t part : {std::size_t{1}, std::size_t{1000}, std::size_t{70000}}) {
    Memory all(part * index(world.ranks));
    all.write(part * index(world.rank), pattern(world.rank, part));
    check(ncclAllGather(all.at(part * index(world.rank)), all, part, ncclInt8, comm, stream));
    stream.wait();
    for (int rank = 0; rank < world.ranks; ++rank)
      need(all.read(part * index(rank), part) == pattern(rank, part), "wrong bytes");
  }
}

void all_gather_apart(World& world) {
  Comm comm(world);
  Stream stream;
  const std::size_t part = 480;
  Memory own(part), all(part * index(world.ranks));
  own.write(0, pattern(world.rank, part));
  check(ncclAllGather(own, all, part / 4, ncclFloat32, comm, stream));
  stream.wait();
  for (int rank = 0; rank < world.ranks; ++rank)
    need(all.read(part * index(rank), part) == pattern(rank, part), "wrong bytes");
}

// Rank r has r * 311 bytes, so rank 0 has none.
void uneven_broadcasts(World& world) {
  Comm comm(world);
  Stream stream;
  const auto begin = [](int rank) { return index(rank) * index(rank) * 311; };
  const auto size = [](int rank) { return index(rank) * 311; };
  Memory all(begin(world.ranks) + 1);
  if (world.rank > 0) all.write(begin(world.rank), pattern(world.rank, size(world.rank)));
  check(ncclGroupStart());
  for (int root = 0; root < world.ranks; ++root)
    check(ncclBroadcast(all.at(begin(root)), all.at(begin(root)), size(root), ncclUint8, root, comm, stream));
  check(ncclGroupEnd());
  stream.wait();
  for (int root = 1; root < world.ranks; ++root)
    need(all.read(begin(root), size(root)) == pattern(root, size(root)), "wrong bytes");
}

void broadcast_apart(World& world) {
  Comm comm(world);
  Stream stream;
  const int root = world.ranks - 1;
  Memory from(800), to(800);
  from.write(0, pattern(world.rank, 800));
  check(ncclBroadcast(from, to, 100, ncclInt64, root, comm, stream));
  stream.wait();
  need(to.read(0, 800) == pattern(root, 800), "wrong bytes");
}

void grouped_ring(World& world) {
  Comm comm(world);
  Stream stream;
  const int next = (world.rank + 1) % world.ranks;
  const int previous = (world.rank + world.ranks - 1) % world.ranks;
  Memory from(5000), to(5000);
  for (unsigned turn = 0; turn < 5; ++turn) {
    from.write(0, pattern(world.rank, 5000, turn));
    check(ncclGroupStart());
    check(ncclSend(from, 2500, ncclBfloat16, next, comm, stream));
    check(ncclRecv(to, 2500, ncclBfloat16, previous, comm, stream));
    check(ncclGroupEnd());
    stream.wait();
    need(to.read(0, 5000) == pattern(previous, 5000, turn), "wrong bytes");
  }
}

// Groups may be nested: the outermost end counts.
void nested_groups(World& world) {
  Comm comm(world);
  Stream stream;
  const int peer = world.rank ^ 1;
  Memory from(100), to(100);
  from.write(0, pattern(world.rank, 100));
  check(ncclGroupStart());
  check(ncclGroupStart());
  check(ncclSend(from, 100, ncclInt8, peer, comm, stream));
  check(ncclGroupEnd());
  check(ncclRecv(to, 100, ncclInt8, peer, comm, stream));
  check(ncclGroupEnd());
  stream.wait();
  need(to.read(0, 100) == pattern(peer, 100), "wrong bytes");
}

// Every rank sends 170 pieces to every rank, itself too, in groups of 256 operations at most.
void many_transfers(World& world) {
  Comm comm(world);
  Stream stream;
  const std::size_t pieces = 170, piece = 24;
  const std::size_t row = pieces * piece;
  Memory from(row * index(world.ranks)), to(row * index(world.ranks));
  for (int rank = 0; rank < world.ranks; ++rank)
    from.write(row * index(rank), pattern(world.rank, row, static_cast<unsigned>(rank)));
  const std::size_t turn = 128 / index(world.ranks);
  for (std::size_t begin = 0; begin < pieces; begin += turn) {
    check(ncclGroupStart());
    for (std::size_t i = begin; i < std::min(begin + turn, pieces); ++i)
      for (int peer = 0; peer < world.ranks; ++peer) {
        const std::size_t place = row * index(peer) + i * piece;
        check(ncclSend(from.at(place), piece, ncclInt8, peer, comm, stream));
        check(ncclRecv(to.at(place), piece, ncclInt8, peer, comm, stream));
      }
    check(ncclGroupEnd());
  }
  stream.wait();
  for (int rank = 0; rank < world.ranks; ++rank)
    need(to.read(row * index(rank), row) == pattern(rank, row, static_cast<unsigned>(world.rank)),
         "wrong bytes");
}

// Without a group, when one side sends first and the other receives first.
void ordered_transfers(World& world) {
  Comm comm(world);
  Stream stream;
  const int peer = world.rank ^ 1;
  Memory from(64), to(64);
  from.write(0, pattern(world.rank, 64));
  const bool first = world.rank < peer;
  if (first) check(ncclSend(from, 64, ncclInt8, peer, comm, stream));
  check(ncclRecv(to, 64, ncclInt8, peer, comm, stream));
  if (!first) check(ncclSend(from, 64, ncclInt8, peer, comm, stream));
  stream.wait();
  need(to.read(0, 64) == pattern(peer, 64), "wrong bytes");
}

// Gathers in a communicator whose ranks are `members` of the world.
void gather_among(const std::vector<int>& members, int self, ncclComm_t comm, const Stream& stream) {
  const std::size_t part = 200;
  Memory all(part * members.size());
  std::size_t place = 0;
  while (members[place] != self) ++place;
  all.write(part * place, pattern(self, part));
  check(ncclAllGather(all.at(part * place), all, part, ncclInt8, comm, stream));
  stream.wait();
  for (std::size_t i = 0; i < members.size(); ++i)
    need(all.read(part * i, part) == pattern(members[i], part), "wrong bytes");
}

void splits(World& world) {
  Stream stream;
  Comm comm(world, config(true, true));
  std::vector<int> alike, backwards;
  for (int rank = world.rank % 2; rank < world.ranks; rank += 2) alike.push_back(rank);
  for (int rank = world.ranks - 1; rank > 0; --rank) backwards.push_back(rank);
  Comm parity(comm, world.rank % 2, world.rank);
  Comm without_first(comm, world.rank == 0 ? NCCL_SPLIT_NOCOLOR : 7, -world.rank);
  need((without_first == nullptr) == (world.rank == 0), "no color must give no communicator");
  gather_among(alike, world.rank, parity, stream);
  if (world.rank > 0) gather_among(backwards, world.rank, without_first, stream);
  gather_among(alike, world.rank, parity, stream);
}

// On one stream, parent and child may follow each other without a wait.
void parent_then_child(World& world) {
  Stream stream;
  Comm comm(world, config(true, true));
  Comm child(comm, 0, -world.rank);
  Memory parents(10 * index(world.ranks)), childs(10 * index(world.ranks));
  const int turned = world.ranks - 1 - world.rank;
  parents.write(10 * index(world.rank), pattern(world.rank, 10));
  childs.write(10 * index(turned), pattern(world.rank, 10));
  for (int turn = 0; turn < 3; ++turn) {
    check(ncclAllGather(parents.at(10 * index(world.rank)), parents, 10, ncclInt8, comm, stream));
    check(ncclAllGather(childs.at(10 * index(turned)), childs, 10, ncclInt8, child, stream));
  }
  stream.wait();
  for (int rank = 0; rank < world.ranks; ++rank) {
    need(parents.read(10 * index(rank), 10) == pattern(rank, 10), "wrong bytes of the parent");
    need(childs.read(10 * index(rank), 10) == pattern(world.ranks - 1 - rank, 10),
         "wrong bytes of the child");
  }
}

void not_blocking(World& world) {
  Stream stream;
  Event done;
  Memory all(50 * index(world.ranks));
  all.write(50 * index(world.rank), pattern(world.rank, 50));
  Comm comm(world, config(false, true));
  ncclComm_t child = nullptr;
  const ncclResult_t split = ncclCommSplit(comm, 0, world.rank, &child, nullptr);
  need(split == ncclInProgress && child == nullptr, "a split must be in progress first");
  settle(comm, split);
  need(child != nullptr, "the split has ended without a communicator");
  settle(child, ncclInProgress);
  check(ncclGroupStart());
  check(ncclAllGather(all.at(50 * index(world.rank)), all, 50, ncclInt8, child, stream));
  const ncclResult_t end = ncclGroupEnd();
  need(end == ncclInProgress, "the end of a group must be in progress first");
  settle(child, end);
  done.record(stream);
  done.wait();
  for (int rank = 0; rank < world.ranks; ++rank)
    need(all.read(50 * index(rank), 50) == pattern(rank, 50), "wrong bytes");
  settle(child, ncclCommFinalize(child));
  check(ncclCommDestroy(child));
  settle(comm, ncclCommFinalize(comm));
}

// Rank 0 fails before an all-gather that the others have issued: all abort, and nobody hangs.
void abort_everywhere(World& world) {
  Memory all(8 * index(world.ranks));
  Stream stream;
  Event done;
  Comm comm(world, config(true, true));
  Comm child(comm, 0, world.rank);
  all.write(8 * index(world.rank), pattern(world.rank, 8));
  if (world.rank > 0) {
    check(ncclAllGather(all.at(8 * index(world.rank)), all, 8, ncclInt8, child, stream));
    check(ncclBroadcast(all, all, 8, ncclInt8, 0, child, stream));
    done.record(stream);
    for (int i = 0; i < 20; ++i)
      need(cudaEventQuery(done) == cudaErrorNotReady, "an operation without rank 0 has ended");
  }
  world.barrier();
  comm.abort();  // and with it the child, which shares
  if (world.rank > 0) done.wait();
  child.abort();
  stream.wait();
}

// A rank that has aborted, or died, is for the product's deadline to find: no deadlock is reported.
void wait_for_gone_rank(World& world, bool dies) {
  Memory all(2);
  Stream stream;
  Event done;
  Comm comm(world);
  all.write(index(world.rank), pattern(world.rank, 1));
  world.barrier();
  if (world.rank == 1 && dies) raise(SIGKILL);
  if (world.rank == 1) comm.abort();
  if (!dies) world.barrier();
  if (world.rank == 1) return;
  check(ncclAllGather(all, all, 1, ncclInt8, comm, stream));
  done.record(stream);
  for (int i = 0; i < 150; ++i) {
    need(cudaEventQuery(done) == cudaErrorNotReady, "an operation without rank 1 has ended");
    usleep(10000);
  }
  comm.abort();
  stream.wait();
}
void peer_aborted(World& world) {
  wait_for_gone_rank(world, false);
}
void peer_died(World& world) {
  wait_for_gone_rank(world, true);
}

// A pipeline: copies on one stream, gathers on another, slots refilled when their copies have passed.
void overlap(World& world) {
  const std::size_t part = 3000, rounds = 8, slots = 2;
  Comm comm(world);
  Stream load, fill;
  Event copied[slots], loaded, filled;
  std::byte* pinned = nullptr;
  check(cudaHostAlloc(reinterpret_cast<void**>(&pinned), part * slots, 0));
  Memory all(part * index(world.ranks) * rounds);
  const auto place = [&](std::size_t round, int rank) {
    return (round * index(world.ranks) + index(rank)) * part;
  };
  for (std::size_t round = 0; round < rounds; ++round) {
    const std::size_t slot = round % slots;
    if (round >= slots) copied[slot].wait();
    const Bytes bytes = pattern(world.rank, part, static_cast<unsigned>(round));
    std::memcpy(pinned + slot * part, bytes.data(), part);
    check(cudaMemcpyAsync(all.at(place(round, world.rank)), pinned + slot * part, part,
                          cudaMemcpyHostToDevice, load));
    copied[slot].record(load);
    loaded.record(load);
    check(cudaStreamWaitEvent(fill, loaded, 0));
    check(
        ncclAllGather(all.at(place(round, world.rank)), all.at(place(round, 0)), part, ncclInt8, comm, fill));
  }
  filled.record(fill);
  filled.wait();
  load.wait();
  for (std::size_t round = 0; round < rounds; ++round)
    for (int rank = 0; rank < world.ranks; ++rank)
      need(all.read(place(round, rank), part) == pattern(rank, part, static_cast<unsigned>(round)),
           "wrong bytes");
  check(cudaFreeHost(pinned));
}

// The same random sequence on all ranks, none waited for before the end.
void random_sequence(World& world) {
  const std::size_t part = 400, steps = 300;
  Comm comm(world);
  Stream stream;
  std::mt19937 random(17);
  Memory all(steps * part * index(world.ranks));
  const auto place = [&](std::size_t step, int rank) {
    return (step * index(world.ranks) + index(rank)) * part;
  };
  for (std::size_t step = 0; step < steps; ++step)
    all.write(place(step, world.rank), pattern(world.rank, part, static_cast<unsigned>(step)));
  for (std::size_t step = 0; step < steps; ++step) {
    std::byte* const own = all.at(place(step, world.rank));
    switch (random() % 3) {
      case 0:
        check(ncclAllGather(own, all.at(place(step, 0)), part, ncclInt8, comm, stream));
        break;
      case 1:
        check(ncclGroupStart());
        for (int root = 0; root < world.ranks; ++root)
          check(ncclBroadcast(all.at(place(step, root)), all.at(place(step, root)), part / 2, ncclFloat16,
                              root, comm, stream));
        check(ncclGroupEnd());
        break;
      default:
        check(ncclGroupStart());
        for (int peer = 0; peer < world.ranks; ++peer) {
          if (peer == world.rank) continue;
          check(ncclSend(own, part, ncclUint8, peer, comm, stream));
          check(ncclRecv(all.at(place(step, peer)), part, ncclUint8, peer, comm, stream));
        }
        check(ncclGroupEnd());
    }
  }
  stream.wait();
  for (std::size_t step = 0; step < steps; ++step)
    for (int rank = 0; rank < world.ranks; ++rank)
      need(all.read(place(step, rank), part) == pattern(rank, part, static_cast<unsigned>(step)),
           "wrong bytes");
}

// More operations than the double's rings hold, waited for in between.
void long_sequence(World& world) {
  Comm comm(world);
  Stream stream;
  const std::size_t turns = 150, size = 64;  // 9600 collectives, and as many transfers to one peer
  const int peer = (world.rank + 1) % world.ranks;
  const int source = (world.rank + world.ranks - 1) % world.ranks;
  Memory all(size), from(size), to(size);
  all.write(0, pattern(world.rank, size));
  for (std::size_t turn = 0; turn < turns; ++turn) {
    from.write(0, pattern(world.rank, size, static_cast<unsigned>(turn)));
    check(ncclGroupStart());
    for (std::size_t i = 0; i < size; ++i) {
      const int root = static_cast<int>(i) % world.ranks;
      check(ncclBroadcast(all.at(i), all.at(i), 1, ncclInt8, root, comm, stream));
      check(ncclSend(from.at(i), 1, ncclInt8, peer, comm, stream));
      check(ncclRecv(to.at(i), 1, ncclInt8, source, comm, stream));
    }
    check(ncclGroupEnd());
    stream.wait();
    need(to.read(0, size) == pattern(source, size, static_cast<unsigned>(turn)), "wrong bytes");
  }
}

ncclResult_t try_init(World& world, ncclConfig_t with, ncclComm_t& comm) {
  return ncclCommInitRankConfig(&comm, world.ranks, world.unique_id(), world.rank, &with);
}

void duplicate_gpu_is_refused(World& world) {
  ncclComm_t comm = nullptr;
  need(try_init(world, config(true), comm) == ncclInvalidUsage, "two ranks on one GPU must be refused");
  need(std::strstr(ncclGetLastError(nullptr), "Duplicate GPU detected") != nullptr, "the error must say why");
  need(comm == nullptr, "a failed communicator must be null");
  // Without blocking the error comes later, and the communicator is to be aborted.
  need(try_init(world, config(false), comm) == ncclInProgress, "must be in progress");
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) check(ncclCommGetAsyncError(comm, &state));
  need(state == ncclInvalidUsage, "two ranks on one GPU must be refused");
  check(ncclCommAbort(comm));
}

void one_gpu_by_host_id(World& world) {
  setenv("NCCL_HOSTID", std::to_string(world.rank).c_str(), 1);
  ncclComm_t comm = nullptr;
  check(try_init(world, config(true), comm));
  check(ncclCommDestroy(comm));
}

void memory_limit(World& world) {
  ncclConfig_t with = config(true, true);
  ncclComm_t comm = nullptr, child = nullptr, other = nullptr;
  check(try_init(world, with, comm));
  check(ncclCommSplit(comm, 0, 0, &child, nullptr));  // a quarter, so nothing is left
  void* data = nullptr;
  need(cudaMalloc(&data, 1) == cudaErrorMemoryAllocation, "NCCL's memory must count");
  need(try_init(world, with, other) == ncclUnhandledCudaError, "must not fit");
  need(cudaGetLastError() == cudaErrorMemoryAllocation, "the error of cudaMalloc must be kept");
  check(ncclCommDestroy(child));
  check(ncclCommDestroy(comm));
  check(cudaMalloc(&data, 1000));
  check(cudaFree(data));
}

void bad_config(World& world) {
  ncclConfig_t with = config(true);
  with.magic = 1;
  ncclComm_t comm = nullptr;
  need(try_init(world, with, comm) == ncclInvalidArgument, "the magic number must be checked");
  with = config(true);
  with.version = 21800;
  need(try_init(world, with, comm) == ncclInvalidArgument, "the version must be checked");
  ncclUniqueId none = {};
  need(ncclCommInitRankConfig(&comm, world.ranks, none, world.rank, nullptr) == ncclInvalidArgument,
       "the id is none");
  need(ncclGroupEnd() == ncclInvalidUsage, "there is no group");
  need(ncclAllGather(nullptr, nullptr, 0, ncclInt8, nullptr, nullptr) == ncclInvalidArgument,
       "there is no communicator");
}

void versions_differ(World& world) {
  int version = 0;
  check(ncclGetVersion(&version));
  need(version == (world.rank == 1 ? 22903 : NCCL_VERSION_CODE), "wrong version");
  ncclComm_t comm = nullptr;
  need(try_init(world, config(true), comm) == ncclInvalidUsage, "versions must be the same");
}

void no_driver(World& world) {
  int version = 0;
  check(ncclGetVersion(&version));
  ncclComm_t comm = nullptr;
  need(try_init(world, config(true), comm) == ncclUnhandledCudaError && !comm, "there is no driver");
}

void move_some(World& world) {
  check(cudaSetDevice(world.rank));
  Comm comm(world);
  Stream stream;
  Memory all(100 * index(world.ranks)), from(7), to(7);
  all.write(100 * index(world.rank), pattern(world.rank, 100));
  from.write(0, pattern(world.rank, 7));
  check(ncclAllGather(all.at(100 * index(world.rank)), all, 100, ncclInt8, comm, stream));
  check(ncclBroadcast(all, all, 5, ncclInt32, 0, comm, stream));
  check(ncclGroupStart());
  check(ncclSend(from, 7, ncclInt8, (world.rank + 1) % world.ranks, comm, stream));
  check(ncclRecv(to, 7, ncclInt8, (world.rank + world.ranks - 1) % world.ranks, comm, stream));
  check(ncclGroupEnd());
  stream.wait();
}

// What a process writes when it ends: bytes that came from others, and bytes sent.
void figures(World& world) {
  std::string folder = std::filesystem::temp_directory_path() / "fake-nccl-XXXXXX";
  need(mkdtemp(folder.data()) != nullptr, "cannot make a folder");
  setenv("SLABLOAD_FAKE_STATS", folder.c_str(), 1);
  const pid_t child = fork();
  if (child == 0) {
    move_some(world);
    std::exit(0);
  }
  int status = -1;
  need(waitpid(child, &status, 0) == child && status == 0, "the child failed");
  const std::filesystem::path file =
      std::filesystem::path(folder) / ("rank-" + std::to_string(world.rank) + ".json");
  std::ifstream stream(file);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  std::filesystem::remove_all(folder);
  const auto has = [&](const std::string& name, int value) {
    return text.find("\"" + name + "\": " + std::to_string(value)) != std::string::npos;
  };
  need(has("nccl_allgather", 100 * (world.ranks - 1)) && has("nccl_broadcast", world.rank == 0 ? 0 : 20) &&
           has("nccl_send", 7) && has("nccl_recv", 7),
       text.c_str());
  need(has("single_rank_communicators", 1) == (world.ranks == 1), text.c_str());
}

// The second query tells of an asynchronous error on rank 0, and two calls fail on rank 1.
void injected_errors(World& world) {
  Memory memory(2);
  Stream stream;
  Comm comm(world);
  memory.write(0, pattern(0, 2));
  ncclResult_t state = ncclSuccess;
  check(ncclCommGetAsyncError(comm, &state));
  check(state);
  check(ncclCommGetAsyncError(comm, &state));
  need(state == (world.rank == 0 ? ncclRemoteError : ncclSuccess), "the error must come now, on rank 0");
  const ncclResult_t gather = ncclAllGather(memory.at(index(world.rank)), memory, 1, ncclInt8, comm, stream);
  need(gather == (world.rank == 0 ? ncclRemoteError : ncclInternalError), "must fail");
  if (world.rank == 1) {
    check(ncclGroupStart());
    need(ncclSend(memory, 1, ncclInt8, 0, comm, stream) == ncclSystemError, "must fail");
    need(ncclGroupEnd() == ncclSystemError, "the group must fail as its operation did");
  }
  comm.abort();
}

// On a device whose context has ended an abort stops what runs, and yet fails.
void abort_of_a_dead_device(World& world) {
  void* data = nullptr;
  check(cudaMalloc(&data, 1));
  Stream stream;
  ncclComm_t comm = nullptr;
  ncclConfig_t with = config(true);
  check(try_init(world, with, comm));
  const cudaError_t code = cudaMemsetAsync(data, 0, 1, stream);
  need(code == (world.rank == 0 ? cudaSuccess : cudaErrorLaunchFailure), "the fault must come on rank 1");
  need(ncclCommAbort(comm) == (world.rank == 0 ? ncclSuccess : ncclUnhandledCudaError), "abort");
  // Without the destructors, which have nothing to free any more.
  if (world.rank == 1) _exit(0);
  stream.wait();
  check(cudaFree(data));
}

const std::vector<Case> cases = {
    {"all_gather_in_place", all_gather_in_place, {1, 2, 3, 4}},
    {"all_gather_apart", all_gather_apart, {1, 3}},
    {"uneven_broadcasts", uneven_broadcasts, {2, 4}},
    {"broadcast_apart", broadcast_apart, {3}},
    {"grouped_ring", grouped_ring, {1, 2, 4}},
    {"nested_groups", nested_groups, {2}},
    {"many_transfers", many_transfers, {2, 3}},
    {"ordered_transfers", ordered_transfers, {2, 4}},
    {"splits", splits, {2, 4}},
    {"parent_then_child", parent_then_child, {3}},
    {"not_blocking", not_blocking, {1, 3}},
    {"abort_everywhere", abort_everywhere, {2, 3}},
    {.name = "peer_aborted",
     .body = peer_aborted,
     .ranks = {2},
     .environment = {{"SLABLOAD_FAKE_DEADLOCK_S", "0.5"}}},
    {.name = "peer_died",
     .body = peer_died,
     .ranks = {2},
     .killed_rank = 1,
     .environment = {{"SLABLOAD_FAKE_DEADLOCK_S", "0.5"}}},
    {"overlap", overlap, {2, 3}},
    {"random_sequence", random_sequence, {2, 4}},
    {"long_sequence", long_sequence, {2}},
    {.name = "duplicate_gpu_is_refused", .body = duplicate_gpu_is_refused, .ranks = {2}, .gpu = Gpu::first},
    {.name = "one_gpu_by_host_id", .body = one_gpu_by_host_id, .ranks = {2}, .gpu = Gpu::first},
    {.name = "memory_limit",
     .body = memory_limit,
     .ranks = {2},
     .environment = {{"SLABLOAD_FAKE_MEMORY", "1000"}, {"SLABLOAD_FAKE_NCCL_MEMORY", "800"}}},
    {"bad_config", bad_config, {2}},
    {.name = "no_driver",
     .body = no_driver,
     .ranks = {2},
     .gpu = Gpu::none,
     .environment = {{"SLABLOAD_FAKE_DRIVER", "0"}}},
    {.name = "figures", .body = figures, .ranks = {1, 3}, .gpu = Gpu::none},
    {.name = "versions_differ",
     .body = versions_differ,
     .ranks = {2},
     .environment = {{"SLABLOAD_FAKE_NCCL_VERSION", "1:22903"}}},
    {.name = "abort_of_a_dead_device",
     .body = abort_of_a_dead_device,
     .ranks = {2},
     .environment = {{"SLABLOAD_FAKE_FAULT", "1:cudaMemsetAsync:1:719"}}},
    {.name = "injected_errors",
     .body = injected_errors,
     .ranks = {2},
     .environment = {{"SLABLOAD_FAKE_FAULT", "0:async:2:6;1:ncclAllGather:1:3;1:ncclSend:1:2"}}},
};

}  // namespace
}  // namespace doubles

int main(int count, char** arguments) {
  return doubles::run_cases(doubles::cases, count - 1, arguments + 1);
}
