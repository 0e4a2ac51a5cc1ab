#include "backend/host/child.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/narrow.h"

extern char** environ;

namespace slabload::host {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // their shadow memory is beyond any limit, and they report on stderr
#else
constexpr bool kSanitized = false;
#endif

class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  ~Fd() { reset(); }
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    reset();
    fd_ = std::exchange(other.fd_, -1);
    return *this;
  }
  int get() const { return fd_; }
  void reset() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

struct Pipe {
  Fd read, write;
};

Pipe make_pipe(const std::string& about) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail(Status::file, "{}: no pipe: {}", about, errno_text(errno));
  return {Fd(ends[0]), Fd(ends[1])};
}

// An answer: the status (0: a result), the size, then so many bytes.
struct Head {
  std::uint64_t status;
  std::uint64_t size;
};

bool send(int fd, const void* data, std::size_t size) {
  const char* from = static_cast<const char*>(data);
  while (size > 0) {
    ssize_t done = write(fd, from, size);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    from += done;
    size -= static_cast<std::size_t>(done);
  }
  return true;
}

// Ends the process without a destructor or a handler of the libraries in it: those may be another's.
[[noreturn]] void send_and_end(int fd, Status status, std::string_view bytes) {
  Head head{static_cast<std::uint64_t>(status), bytes.size()};
  bool sent = send(fd, &head, sizeof head) && send(fd, bytes.data(), bytes.size());
  _exit(sent ? 0 : 1);
}

std::uint64_t mapped_bytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  unsigned long long pages = 0;
  if (std::fscanf(file, "%llu", &pages) != 1) pages = 0;
  std::fclose(file);
  return pages * narrow<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

void limit_this_process(const ChildLimits& limits) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // it answers its parent only
  // A crash is part of the work: as the system does it, without a core file or a library's report.
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    if (!kSanitized) std::signal(signal, SIG_DFL);
  }
  // A batch system signals every process of a job; what the signal means is the parent's to say.
  for (int signal : {SIGINT, SIGTERM}) std::signal(signal, SIG_IGN);
  struct rlimit none {
    0, 0
  };
  setrlimit(RLIMIT_CORE, &none);
  if (kSanitized) return;
  Fd null(open("/dev/null", O_WRONLY | O_CLOEXEC));
  if (null.get() >= 0) dup2(null.get(), STDERR_FILENO);
  std::uint64_t mapped = mapped_bytes();
  if (mapped == 0) return;
  struct rlimit memory {};
  if (getrlimit(RLIMIT_AS, &memory) != 0) return;
  memory.rlim_cur = std::min<rlim_t>(memory.rlim_max, mapped + limits.memory);
  setrlimit(RLIMIT_AS, &memory);
}

[[noreturn]] void make_and_send(int fd, const ChildLimits& limits, const MakeBytes& make) {
  limit_this_process(limits);
  try {
    std::string made = make();
    send_and_end(fd, Status::ok, made);
  } catch (const Error& error) {
    send_and_end(fd, error.status(), error.message());
  } catch (const std::bad_alloc&) {
    send_and_end(fd, Status::peer, {});  // said by the parent, which has the memory to do so
  } catch (const std::exception& error) {
    send_and_end(fd, Status::internal, error.what());
  }
}

// A started child, ended and waited for whatever happens.
class Child {
 public:
  Child(pid_t pid, Fd answer, const ChildLimits& limits, const std::string& about)
      : pid_(pid), answer_(std::move(answer)), limits_(limits), about_(about) {}
  ~Child() { end(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  std::string result() {
    Head head{};
    std::string bytes;
    if (receive(&head, sizeof head)) {
      if (head.size > limits_.memory) {
        fail(Status::file, "{} gave {} bytes: the file is damaged or hostile", about_, head.size);
      }
      bytes.resize(head.size);
      if (receive(bytes.data(), bytes.size())) return take(head, std::move(bytes));
    }
    explain();
  }

 private:
  std::string take(const Head& head, std::string bytes) const {
    if (head.status > static_cast<std::uint64_t>(Status::internal))
      fail(Status::file, "{} gave no sense", about_);
    auto status = static_cast<Status>(head.status);
    if (status == Status::ok) return bytes;
    if (status == Status::peer) {
      fail(Status::file, "{} needs more than {} of memory: the file is damaged or hostile", about_,
           format_bytes(limits_.memory));
    }
    throw Error(status, std::move(bytes));
  }

  // False if the child closed its end before all came.
  bool receive(void* to, std::size_t size) {
    char* out = static_cast<char*>(to);
    while (size > 0) {
      struct pollfd wait {
        answer_.get(), POLLIN, 0
      };
      auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
      if (left <= 0) {
        fail(Status::file,
             "{} did not end within {:.3g} s: the file is damaged or hostile, or its file system very slow "
             "(--timeout)",
             about_, limits_.timeout_s);
      }
      int ready = poll(&wait, 1, static_cast<int>(std::min<long>(left, 1'000'000)));
      if (ready < 0 && errno != EINTR) return false;
      if (ready <= 0) continue;
      ssize_t got = read(answer_.get(), out, size);
      if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (got <= 0) return false;
      out += got;
      size -= static_cast<std::size_t>(got);
    }
    return true;
  }

  // It ended without an answer.
  [[noreturn]] void explain() {
    int status = 0;
    pid_t waited;
    while ((waited = waitpid(pid_, &status, 0)) < 0 && errno == EINTR) {
    }
    pid_t pid = std::exchange(pid_, 0);
    if (waited != pid)
      fail(Status::file, "{} ended without an answer", about_);  // the user's program took it
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
      fail(Status::file, "{} was killed (signal 9): for want of memory, or by someone", about_);
    }
    if (WIFSIGNALED(status)) {
      fail(Status::file, "{} crashed (signal {}, {}): the file is damaged or hostile", about_,
           WTERMSIG(status), strsignal(WTERMSIG(status)));
    }
    fail(Status::file, "{} ended with status {} and without an answer: the file is damaged or hostile",
         about_, WEXITSTATUS(status));
  }

  void end() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    pid_ = 0;
  }

  using Clock = std::chrono::steady_clock;
  pid_t pid_;
  Fd answer_;
  const ChildLimits& limits_;
  const std::string& about_;
  Clock::time_point deadline_ =
      Clock::now() + std::chrono::milliseconds(static_cast<std::int64_t>(limits_.timeout_s * 1000));
};

}  // namespace

std::string from_new_process(const std::vector<std::string>& arguments, const ChildLimits& limits,
                             const std::string& about) {
  constexpr int kDescriptor = 3;
  Pipe pipe = make_pipe(about);
  std::vector<std::string> words{"slabload"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  words.push_back(fmt::format("{}", kDescriptor));
  words.push_back(fmt::format("{}", limits.memory));
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe.write.get(), kDescriptor);
  pid_t pid = 0;
  int failed = posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0)
    fail(Status::file, "{}: no process could be started for it: {}", about, errno_text(failed));
  pipe.write.reset();
  return Child(pid, std::move(pipe.read), limits, about).result();
}

std::string from_copy(const MakeBytes& make, const ChildLimits& limits, const std::string& about) {
  Pipe pipe = make_pipe(about);
  pid_t pid = fork();
  if (pid < 0) fail(Status::file, "{}: no process could be started for it: {}", about, errno_text(errno));
  if (pid == 0) make_and_send(pipe.write.get(), limits, make);
  pipe.write.reset();
  return Child(pid, std::move(pipe.read), limits, about).result();
}

void answer(const std::string& descriptor, const std::string& memory, const MakeBytes& make) {
  auto number = [](const std::string& text, auto value) {
    if (std::from_chars(text.data(), text.data() + text.size(), value).ptr != text.data() + text.size())
      _exit(2);
    return value;
  };
  ChildLimits limits;
  limits.memory = number(memory, std::uint64_t{0});
  make_and_send(number(descriptor, 0), limits, make);
}

}  // namespace slabload::host
