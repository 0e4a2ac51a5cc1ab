// Other processes that end in order, that die, and that say why they end the job.
#include "app/peer_watch.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <optional>
#include <stdexcept>

namespace slabload {
namespace {

using host::LastWord;
using host::Lifeline;
using ::testing::ElementsAre;

// A process with a lifeline; it says its last word when told to, and then waits to be killed.
class OtherProcess {
 public:
  OtherProcess() {
    int up[2], down[2];
    if (pipe(up) != 0 || pipe(down) != 0) throw std::runtime_error("pipe");
    process_ = fork();
    if (process_ < 0) throw std::runtime_error("fork");
    if (process_ == 0) {
      // Whatever is inherited of this test's own would look like life.
      for (int fd = 3; fd < 256; ++fd) {
        if (fd != up[1] && fd != down[0]) close(fd);
      }
      live(up[1], down[0]);
    }
    close(up[1]);
    close(down[0]);
    orders_ = down[1];
    answers_ = up[0];
    if (read(answers_, &address_, sizeof address_) != sizeof address_) throw std::runtime_error("no address");
  }
  ~OtherProcess() {
    die();
    reap();
    close(orders_);
    close(answers_);
  }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  const Lifeline::Address& address() const { return address_; }
  pid_t process() const { return process_; }

  void say(LastWord word) {
    char done;
    if (write(orders_, &word, sizeof word) != sizeof word || read(answers_, &done, 1) != 1)
      throw std::runtime_error("the other process has ended");
  }
  // The process stays a zombie, as where nobody waits for it.
  void die() {
    if (reaped_) return;
    kill(process_, SIGKILL);
    siginfo_t info;
    waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOWAIT);
  }
  void reap() {
    if (!reaped_) waitpid(process_, nullptr, 0);
    reaped_ = true;
  }

 private:
  [[noreturn]] static void live(int answers, int orders) {
    Lifeline line;
    bool sent = write(answers, &line.address(), sizeof(Lifeline::Address)) > 0;
    LastWord word;
    while (sent && read(orders, &word, sizeof word) == sizeof word) {
      line.say(word);
      sent = write(answers, "", 1) == 1;
    }
    _exit(0);
  }

  pid_t process_;
  int orders_, answers_;
  Lifeline::Address address_;
  bool reaped_ = false;
};

// Watches some processes, as rank 0 among ranks 1, 2, ... in this order.
class Watcher {
 public:
  explicit Watcher(const std::vector<const OtherProcess*>& others) {
    std::vector<Peer> peers;
    for (const OtherProcess* other : others)
      peers.push_back({static_cast<std::int32_t>(peers.size()) + 1, other->address()});
    watch_.emplace(
        Lifeline(), peers, "here", [this](const std::string& message) { said_.set_value(message); },
        PeerPatience{0.01, 0.01, 0.01});
  }
  std::string says() { return said_.get_future().get(); }
  PeerWatch& watch() { return *watch_; }

 private:
  std::promise<std::string> said_;
  std::optional<PeerWatch> watch_;
};

std::string death_of(int rank, const OtherProcess& process) {
  return fmt::format("rank {} (process {} on here) has ended without a word; ending the job", rank,
                     process.process());
}

TEST(PeerWatch, ReportsTheOneThatDies) {
  for (bool reaped : {false, true}) {
    OtherProcess a, b, c;
    Watcher watcher({&a, &b, &c});
    b.die();
    if (reaped) b.reap();
    EXPECT_EQ(watcher.says(), death_of(2, b));
  }
}

TEST(PeerWatch, ReportsTheOneThatExitsWithoutAWord) {
  auto a = std::make_unique<OtherProcess>();
  Watcher watcher({a.get()});
  std::string expected = death_of(1, *a);
  a.reset();
  EXPECT_EQ(watcher.says(), expected);
}

// The second death is reported, and so the first was seen and not: both orders of the two are possible
// otherwise.
TEST(PeerWatch, LetsThoseGoThatLeaveInOrder) {
  OtherProcess a, b, c;
  Watcher watcher({&a, &b, &c});
  a.say(LastWord::leaves);
  c.say(LastWord::leaves);
  a.die();
  c.die();
  a.reap();
  b.die();
  EXPECT_EQ(watcher.says(), death_of(2, b));
}

TEST(PeerWatch, IsSilentWhereAnotherHasSpoken) {
  {
    OtherProcess a;
    Watcher watcher({&a});
    a.say(LastWord::ends_the_job);
    a.die();
    EXPECT_EQ(watcher.says(), "");
  }
  {
    // One dies, another that still lives tells of it.
    OtherProcess a, b;
    Watcher watcher({&a, &b});
    EXPECT_FALSE(watcher.watch().another_ends_the_job());
    b.say(LastWord::ends_the_job);
    EXPECT_TRUE(watcher.watch().another_ends_the_job());
    a.die();
    EXPECT_EQ(watcher.says(), "");
  }
}

TEST(PeerWatch, SaysItsOwnWords) {
  OtherProcess a;
  Lifeline line;
  Lifeline seen(line.address());
  ASSERT_TRUE(seen.open());
  auto nothing = [](const std::string& message) { ADD_FAILURE() << message; };
  {
    PeerWatch watch(std::move(line), {{1, a.address()}}, "here", nothing);
    EXPECT_EQ(seen.last_word(), LastWord::none);
  }
  EXPECT_EQ(seen.last_word(), LastWord::leaves);
  Lifeline second;
  Lifeline seen_second(second.address());
  {
    PeerWatch watch(std::move(second), {{1, a.address()}}, "here", nothing);
    watch.ends_the_job();
    EXPECT_EQ(seen_second.last_word(), LastWord::ends_the_job);
  }
  // It stays so when that rank's objects still get to end in order.
  EXPECT_EQ(seen_second.last_word(), LastWord::ends_the_job);
}

// Nobody to be reached: no alarm, and no harm.
TEST(PeerWatch, LeavesOutWhomItCannotReach) {
  OtherProcess gone, other;
  Lifeline::Address wrong_pipe = other.address();
  wrong_pipe.inode += 1;
  Lifeline::Address no_pipe = other.address();
  no_pipe.descriptor = 0;
  gone.die();
  EXPECT_FALSE(Lifeline(gone.address()).open());
  EXPECT_FALSE(Lifeline(wrong_pipe).open());
  EXPECT_FALSE(Lifeline(no_pipe).open());
  EXPECT_FALSE(Lifeline(Lifeline::Address{}).open());
  EXPECT_TRUE(Lifeline(other.address()).open());
  PeerWatch watch(Lifeline(),
                  {{1, gone.address()}, {2, wrong_pipe}, {3, no_pipe}, {4, {}}, {5, other.address()}}, "here",
                  [](const std::string& message) { ADD_FAILURE() << message; });
}

TEST(PeerWatch, WatchesTheNeighboursThatFollow) {
  auto ranks = [](std::size_t node, std::size_t position) {
    std::vector<Peer> all;
    for (std::size_t i = 0; i < node; ++i) all.push_back({static_cast<std::int32_t>(10 * i), {}});
    std::vector<int> out;
    for (const Peer& peer : neighbours(all, position)) out.push_back(peer.rank);
    return out;
  };
  EXPECT_THAT(ranks(1, 0), ElementsAre());
  EXPECT_THAT(ranks(4, 2), ElementsAre(30, 0, 10));
  std::vector<int> many = ranks(100, 90);
  ASSERT_EQ(many.size(), 64u);
  EXPECT_EQ(many.front(), 910);
  EXPECT_EQ(many[9], 0);
  EXPECT_EQ(many.back(), 540);
}

}  // namespace
}  // namespace slabload
