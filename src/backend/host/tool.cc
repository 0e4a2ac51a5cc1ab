#include "backend/host/tool.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>

#include "base/error.h"
#include "base/stopwatch.h"

namespace slabload::host {
namespace {

// A file without a name: what goes in and out has any size, and nobody waits for a pipe.
class Memory {
 public:
  explicit Memory(const char* name) : fd_(memfd_create(name, MFD_CLOEXEC)) {
    if (fd_ < 0) fail(Status::file, "memfd_create: {}", errno_text(errno));
  }
  ~Memory() { close(fd_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  int fd() const { return fd_; }
  void put(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t wrote = write(fd_, text.data(), text.size());
      if (wrote < 0 && errno != EINTR) fail(Status::file, "write: {}", errno_text(errno));
      if (wrote > 0) text.remove_prefix(static_cast<std::size_t>(wrote));
    }
    lseek(fd_, 0, SEEK_SET);
  }
  std::string all() const {
    std::string out;
    char buffer[1 << 14];
    lseek(fd_, 0, SEEK_SET);
    for (;;) {
      const ssize_t got = read(fd_, buffer, sizeof buffer);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return out;
      out.append(buffer, static_cast<std::size_t>(got));
    }
  }

 private:
  int fd_;
};

struct Actions {
  posix_spawn_file_actions_t value;
  Actions() { posix_spawn_file_actions_init(&value); }
  ~Actions() { posix_spawn_file_actions_destroy(&value); }
};

}  // namespace

std::string output_of(const std::string& program, const std::vector<std::string>& arguments, const std::string& input,
                      double timeout_s) {
  const Memory in("input"), out("output"), err("errors");
  in.put(input);
  Actions actions;
  const int ends[] = {in.fd(), out.fd(), err.fd()};
  for (int i = 0; i < 3; ++i) posix_spawn_file_actions_adddup2(&actions.value, ends[i], i);
  std::vector<char*> words{const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  pid_t pid = 0;
  const int failed = posix_spawnp(&pid, program.c_str(), &actions.value, nullptr, words.data(), environ);
  if (failed != 0) fail(Status::file, "{}: cannot be started: {}", program, errno_text(failed));
  const Stopwatch watch;
  int status = 0;
  for (pid_t ended = 0; ended != pid;) {
    ended = waitpid(pid, &status, WNOHANG);
    if (ended < 0 && errno != EINTR) fail(Status::file, "{}: waitpid: {}", program, errno_text(errno));
    if (ended == pid) break;
    if (watch.seconds() > timeout_s) {
      kill(pid, SIGKILL);
      waitpid(pid, &status, 0);
      fail(Status::file, "{}: not done after {:.0f} s", program, timeout_s);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return out.all();
  std::string said = err.all();
  while (!said.empty() && said.back() == '\n') said.pop_back();
  fail(Status::file, "{}: {}{}", program,
       WIFEXITED(status) ? fmt::format("ended with status {}", WEXITSTATUS(status))
                         : fmt::format("ended by signal {}", WTERMSIG(status)),
       said.empty() ? "" : ": " + printable(said.substr(0, 400)));
}

}  // namespace slabload::host
