// slabload from C++17: owners of the C interface's handles, and an exception in place of a status. What the
// calls do is said in slabload.h. The namespace is not `slabload`, which belongs to the library inside.
#pragma once

#include <slabload/slabload.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace slabload_api {

class Error : public std::runtime_error {
 public:
  Error(slabload_status status, const std::string& message, bool agreed)
      : std::runtime_error(message), status_(status), agreed_(agreed) {}
  slabload_status status() const { return status_; }
  // True if every rank of the communicator got this error.
  bool agreed() const { return agreed_; }

 private:
  slabload_status status_;
  bool agreed_;
};

// Calls function(arguments..., &error) and throws what went wrong.
template <typename Function, typename... Arguments>
void call(Function function, Arguments... arguments) {
  slabload_error* raw = nullptr;
  slabload_status status = function(arguments..., &raw);
  std::unique_ptr<slabload_error, decltype(&slabload_error_free)> error(raw, &slabload_error_free);
  if (status != SLABLOAD_OK)
    throw Error(status, slabload_error_message(error.get()), slabload_error_agreed(error.get()) != 0);
}

// An owned handle. Move-only; one that was moved from may only be assigned to or destroyed.
template <typename Handle, void (*Free)(Handle*)>
class Owner {
 public:
  explicit Owner(Handle* handle) : handle_(handle) {}
  Handle* get() const { return handle_.get(); }

 private:
  struct Delete {
    void operator()(Handle* handle) const { Free(handle); }
  };
  std::unique_ptr<Handle, Delete> handle_;
};

// What a checkpoint holds. The pointers in what it returns live as long as it does, however often it is
// moved.
class Index : public Owner<slabload_index, slabload_index_free> {
 public:
  static Index open(const std::string& path) {
    slabload_index* made = nullptr;
    call(slabload_index_open, path.c_str(), &made);
    return Index(made);
  }
  slabload_index_info info() const {
    slabload_index_info out;
    call(slabload_index_get_info, get(), &out);
    return out;
  }
  std::uint64_t size() const { return info().tensors; }
  slabload_tensor operator[](std::uint64_t number) const {
    slabload_tensor out;
    call(slabload_index_get_tensor, get(), number, &out);
    return out;
  }
  std::uint64_t find(const std::string& name) const {
    std::uint64_t number = 0;
    call(slabload_index_find, get(), name.c_str(), &number);
    return number;
  }
  std::vector<std::string> aliases(std::uint64_t number) const {
    std::vector<std::string> out((*this)[number].aliases);
    for (std::uint64_t i = 0; i < out.size(); ++i) {
      const char* name = nullptr;
      call(slabload_index_get_alias, get(), number, i, &name);
      out[i] = name;
    }
    return out;
  }
  // Name and reason of each object that can't be a tensor.
  std::vector<std::pair<std::string, std::string>> skipped() const {
    std::vector<std::pair<std::string, std::string>> out(info().skipped);
    for (std::uint64_t i = 0; i < out.size(); ++i) {
      const char* name = nullptr;
      const char* reason = nullptr;
      call(slabload_index_get_skipped, get(), i, &name, &reason);
      out[i] = {name, reason};
    }
    return out;
  }

 private:
  using Owner::Owner;
};

// Which part of a tensor a rank gets. An empty mesh is dp_shard=<ranks>, or that of the rules.
class Layout : public Owner<slabload_layout, slabload_layout_free> {
 public:
  static Layout preset(const std::string& name, const std::string& mesh, std::uint64_t ranks) {
    slabload_layout* made = nullptr;
    call(slabload_layout_preset, name.c_str(), mesh.empty() ? nullptr : mesh.c_str(), ranks, &made);
    return Layout(made);
  }
  static Layout rules(const std::string& json, const std::string& mesh, std::uint64_t ranks) {
    slabload_layout* made = nullptr;
    call(slabload_layout_rules, json.c_str(), mesh.empty() ? nullptr : mesh.c_str(), ranks, &made);
    return Layout(made);
  }
  slabload_box box(const Index& index, std::uint64_t number, std::uint64_t rank) const {
    slabload_box out;
    call(slabload_layout_get_box, get(), index.get(), number, rank, &out);
    return out;
  }

 private:
  using Owner::Owner;
};

using Options = std::vector<std::pair<std::string, std::string>>;

// This rank's shards, and the memory they lie in.
class Shards : public Owner<slabload_shards, slabload_shards_free> {
 public:
  // Collective over `communicator`, which is MPI_Comm_c2f(comm).
  static Shards load(int communicator, const std::string& checkpoint, const Options& options = {}) {
    std::vector<slabload_option> pairs;
    for (const auto& [name, value] : options) pairs.push_back({name.c_str(), value.c_str()});
    slabload_shards* made = nullptr;
    call(slabload_load, communicator, checkpoint.c_str(), pairs.data(), std::uint64_t{pairs.size()}, &made);
    return Shards(made);
  }
  slabload_shards_info info() const {
    slabload_shards_info out;
    call(slabload_shards_get_info, get(), &out);
    return out;
  }
  std::uint64_t size() const { return info().tensors; }
  slabload_shard operator[](std::uint64_t number) const {
    slabload_shard out;
    call(slabload_shards_get, get(), number, &out);
    return out;
  }
  slabload_shard operator[](const std::string& name) const { return (*this)[find(name)]; }
  std::uint64_t find(const std::string& name) const {
    std::uint64_t number = 0;
    call(slabload_shards_find, get(), name.c_str(), &number);
    return number;
  }
  // A box of a shard, and the element of its data that it begins at.
  std::pair<slabload_box, std::uint64_t> part(std::uint64_t number, std::uint64_t which) const {
    std::pair<slabload_box, std::uint64_t> out;
    call(slabload_shards_get_part, get(), number, which, &out.first, &out.second);
    return out;
  }

 private:
  using Owner::Owner;
};

}  // namespace slabload_api
