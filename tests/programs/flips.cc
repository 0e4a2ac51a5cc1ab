// Flips bits in the metadata of a small HDF5 file of slabload, one at a time, and reads the whole file after
// each: it must be an error, or mean what it meant; never other tensors without an error.
//   flips FILE FOLDER [--count N] [--seed S] [--foreign]
// N flips chosen by the seed, or all of them (every bit of every byte that is no tensor data). FOLDER takes
// the damaged copies. --foreign: the file has no checksums, so what it means may change; only crashes are
// counted. Prints the counts and one line for each crash; exit status 0 if nothing was wrong. A crash or a
// hang of the library is counted, not an error: slabload has the walk in a process apart.
#include <hdf5.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "backend/hdf5/index.h"
#include "backend/hdf5/reader.h"
#include "base/crc64.h"
#include "base/error.h"

namespace {

using namespace slabload;

struct Options {
  std::string file, folder;
  std::uint64_t count = 0, seed = 1;
  bool foreign = false;
};

std::string read_all(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// What a file means: every tensor's description and bytes, and the metadata, as text. Throws what a load
// would.
std::string meaning(const std::string& path) {
  TensorIndex index = read_hdf5_index(path);
  Hdf5Storage storage(index);
  std::vector<std::string> lines;
  for (const TensorMeta& t : index.tensors) {
    if (t.bytes() > (64u << 20)) fail(Status::file, "tensor {} is too large for this memory", t.name);
    std::string bytes(t.bytes(), '\0');
    if (!bytes.empty()) storage.read(t, whole_box(t.shape), bytes.data());
    std::uint64_t crc = crc64_finish(crc64_part(bytes.data(), bytes.size()), bytes.size());
    if (t.crc64 && *t.crc64 != crc) fail(Status::wrong_data, "tensor {} is wrong", t.name);
    std::string line =
        fmt::format("{}|{}|{}|{}|{}|", t.name, dtype_name(t.dtype), t.shape.text(), t.big_endian, crc);
    for (const std::string& alias : t.aliases) line += alias + ",";
    lines.push_back(line + "\n");
  }
  storage.check_unchanged();
  std::sort(lines.begin(), lines.end());
  std::string out;
  for (const std::string& line : lines) out += line;
  for (const auto& [key, value] : index.metadata) out += key + "=" + value + "\n";
  return out;
}

struct Flip {
  std::uint64_t byte;
  int bit;
};

// Shared with the children, which may end at any flip.
struct Shared {
  volatile std::uint64_t next;  // the flip under way, or the next one
  std::uint64_t errors, wrong_data, same, other;
  char example[4096];
};

class Run {
 public:
  Run(Options options) : options_(std::move(options)), bytes_(read_all(options_.file)) {
    want_ = meaning(options_.file);
    plan();
    void* page = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) std::exit(2);
    shared_ = new (page) Shared{};
  }

  int operator()() {
    std::map<int, std::uint64_t> crashes;
    while (shared_->next < flips_.size()) {
      std::fflush(stdout);
      pid_t pid = fork();
      if (pid == 0) {
        work();
        _exit(0);
      }
      int status = 0;
      waitpid(pid, &status, 0);
      if (!WIFSIGNALED(status) && WEXITSTATUS(status) == 0) continue;
      const Flip& flip = flips_[shared_->next];
      int signal = WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
      std::printf("byte %llu bit %d: %s\n", static_cast<unsigned long long>(flip.byte), flip.bit,
                  signal > 0 ? strsignal(signal) : "ended");
      ++crashes[signal];
      shared_->next = shared_->next + 1;
    }
    auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
    std::printf(
        "%zu flips: %llu errors, %llu of them of wrong data; %llu without effect; %llu OTHER TENSORS;",
        flips_.size(), number(shared_->errors), number(shared_->wrong_data), number(shared_->same),
        number(shared_->other));
    std::uint64_t sum = 0;
    for (auto [signal, n] : crashes) {
      std::printf(" %llu times %s,", number(n), signal > 0 ? strsignal(signal) : "ended");
      sum += n;
    }
    std::printf(" %llu crashes and hangs\n%s", number(sum), shared_->example);
    return shared_->other == 0 || options_.foreign ? 0 : 1;
  }

 private:
  // Every byte outside of the tensors' data.
  void plan() {
    TensorIndex index = read_hdf5_index(options_.file);
    std::vector<bool> data(bytes_.size());
    for (const TensorMeta& t : index.tensors) {
      if (t.storage != StorageKind::contiguous) continue;
      for (std::uint64_t i = 0; i < t.bytes(); ++i) data[t.offset + i] = true;
    }
    for (std::uint64_t i = 0; i < bytes_.size(); ++i) {
      for (int bit = 0; bit < 8 && !data[i]; ++bit) flips_.push_back({i, bit});
    }
    std::printf("%zu bytes, %zu of them metadata, %zu tensors\n", bytes_.size(), flips_.size() / 8,
                index.tensors.size());
    if (options_.count == 0 || options_.count >= flips_.size()) return;
    std::mt19937_64 random(options_.seed);
    std::shuffle(flips_.begin(), flips_.end(), random);
    flips_.resize(options_.count);
  }

  void work() {
    struct rlimit core {
      0, 0
    };
    setrlimit(RLIMIT_CORE, &core);
#if !defined(__SANITIZE_ADDRESS__)
    struct rlimit memory {
      std::uint64_t{8} << 30, std::uint64_t{8} << 30
    };
    setrlimit(RLIMIT_AS, &memory);
    if (std::freopen("/dev/null", "w", stderr) == nullptr) _exit(3);
#endif
    while (shared_->next < flips_.size()) {
      watch(10);
      one(flips_[shared_->next]);
      watch(0);
      shared_->next = shared_->next + 1;
      // What the library could not close it would go on using.
      if (H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL) != 0) return;
    }
  }

  // Ends the process after so many seconds of computing; 0: no more. Not by the clock: the machine may be
  // busy.
  static void watch(int seconds) {
    struct itimerval timer {};
    timer.it_value.tv_sec = seconds;
    setitimer(ITIMER_PROF, &timer, nullptr);
  }

  void one(const Flip& flip) {
    std::string path = options_.folder + "/flip.h5";
    unlink(path.c_str());
    std::string damaged = bytes_;
    damaged[flip.byte] = static_cast<char>(damaged[flip.byte] ^ (1 << flip.bit));
    std::ofstream(path, std::ios::binary) << damaged;
    try {
      std::string found = meaning(path);
      if (found == want_) {
        ++shared_->same;
        return;
      }
      if (shared_->other++ == 0) {
        std::snprintf(shared_->example, sizeof shared_->example, "byte %llu bit %d means:\n%s",
                      static_cast<unsigned long long>(flip.byte), flip.bit, found.c_str());
      }
    } catch (const Error& error) {
      ++shared_->errors;
      if (error.status() == Status::wrong_data) ++shared_->wrong_data;
      if (error.status() == Status::internal) abort();
    } catch (const std::bad_alloc&) {
      ++shared_->errors;
    }
  }

  Options options_;
  std::string bytes_;
  std::string want_;
  std::vector<Flip> flips_;
  Shared* shared_;
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  std::vector<std::string> places;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word == "--foreign") {
      options.foreign = true;
    } else if ((word == "--count" || word == "--seed") && i + 1 < argc) {
      (word == "--count" ? options.count : options.seed) = std::strtoull(argv[++i], nullptr, 10);
    } else {
      places.push_back(word);
    }
  }
  if (places.size() != 2) {
    std::fprintf(stderr, "flips FILE FOLDER [--count N] [--seed S] [--foreign]\n");
    return 2;
  }
  options.file = places[0];
  options.folder = places[1];
  try {
    return Run(options)();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "flips: %s\n", error.what());
    return 2;
  }
}
