#include "backend/host/memory_limit.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "fakes/temp_folder.h"

namespace slabload::host {
namespace {

// A machine with 64 GiB and 2 GiB of swap.
class MemoryLimit : public ::testing::Test {
 protected:
  MemoryLimit() { put("/proc/meminfo", "MemTotal:       67108864 kB\nMemFree:        1234 kB\nSwapTotal:      2097152 kB\nSwapFree: 5 kB\n"); }
  void put(const std::string& name, const std::string& text) {
    const std::filesystem::path path = root_.path() + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  double gib() const { return static_cast<double>(memory_limit(root_.path())) / (1 << 30); }

  slabload::testing::TempFolder root_;
};

TEST_F(MemoryLimit, IsTheMachinesWithSwap) {
  EXPECT_EQ(gib(), 66);
  put("/proc/self/cgroup", "0::/\n");
  EXPECT_EQ(gib(), 66);
}

// Slurm sets the limit on the job, some folders above the task.
TEST_F(MemoryLimit, IsTheLeastOfTheGroupsAbove) {
  put("/proc/self/cgroup", "0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_3\n");
  const std::string job = "/sys/fs/cgroup/system.slice/slurmstepd.scope/job_7";
  put(job + "/step_0/user/task_3/memory.max", "max\n");
  put(job + "/step_0/memory.max", "17179869184\n");
  put(job + "/memory.max", "8589934592\n");
  put("/sys/fs/cgroup/system.slice/memory.max", "max\n");
  EXPECT_EQ(gib(), 8 + 2);
  put(job + "/step_0/user/memory.max", "4294967296\n");
  EXPECT_EQ(gib(), 4 + 2);
}

TEST_F(MemoryLimit, IsTheFirstVersionsToo) {
  put("/proc/self/cgroup", "9:name=systemd:/elsewhere\n4:hugetlb,memory:/slurm/uid_0/job_7\n3:cpuset:/slurm\n0::/\n");
  put("/sys/fs/cgroup/memory/slurm/uid_0/job_7/memory.limit_in_bytes", "9223372036854771712\n");  // what it says for none
  EXPECT_EQ(gib(), 66);
  put("/sys/fs/cgroup/memory/slurm/uid_0/memory.limit_in_bytes", "34359738368\n");
  EXPECT_EQ(gib(), 32 + 2);
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
  EXPECT_EQ(gib(), 1 + 2);
  put("/sys/fs/cgroup/memory/elsewhere/memory.limit_in_bytes", "1\n");  // not ours
  EXPECT_EQ(gib(), 1 + 2);
}

// A container sees its own files under names from outside, or none at all.
TEST_F(MemoryLimit, TakesWhatItCannotReadForNone) {
  put("/proc/self/cgroup", "0::/../outside\nnonsense\n5:memory\n6:memory:relative\n");
  put("/sys/fs/cgroup/memory.max", "\n");
  EXPECT_EQ(gib(), 66);
  put("/proc/meminfo", "");
  EXPECT_EQ(memory_limit(root_.path()), UINT64_MAX);
  put("/proc/meminfo", "SwapTotal: 8 kB\nMemTotal: many kB\n");
  EXPECT_EQ(memory_limit(root_.path()), UINT64_MAX);
}

TEST(MemoryLimitHere, IsOfThisMachine) {
  EXPECT_GT(memory_limit(), 64u << 20);
  EXPECT_LT(memory_limit(), std::uint64_t{1} << 50);
}

}  // namespace
}  // namespace slabload::host
