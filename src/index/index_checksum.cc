#include "index/index_checksum.h"

#include <algorithm>
#include <string>

#include "base/crc64.h"

namespace slabload {
namespace {

// Numbers are 8 bytes little-endian, texts and lists begin with their length.
class Message {
 public:
  void number(std::uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) bytes_ += static_cast<char>(value >> shift);
  }
  void text(std::string_view value) {
    number(value.size());
    bytes_.append(value);
  }
  void numbers(const Dims& values) {
    number(values.size());
    for (std::uint64_t value : values) number(value);
  }
  void texts(const std::vector<std::string>& values) {
    number(values.size());
    for (const std::string& value : values) text(value);
  }
  std::uint64_t checksum() const {
    return crc64_finish(crc64_part(bytes_.data(), bytes_.size()), bytes_.size());
  }

 private:
  std::string bytes_;
};

void put(Message& message, const TensorMeta& t) {
  message.text(t.name);
  message.texts(t.aliases);
  message.text(dtype_name(t.dtype));
  message.number(t.big_endian);
  message.numbers(t.shape.lengths());
  message.text(storage_name(t.storage));
  message.number(t.storage == StorageKind::contiguous ? t.offset : 0);
  message.number(t.stored_bytes);
  message.numbers(t.chunk);
  message.texts(t.filters);
  message.text({reinterpret_cast<const char*>(t.fill.data()), t.fill.size()});
  message.number(t.crc64.has_value());
  message.number(t.crc64.value_or(0));
}

}  // namespace

std::uint64_t index_checksum(const TensorIndex& index) {
  std::vector<const TensorMeta*> by_name;
  by_name.reserve(index.tensors.size());
  for (const TensorMeta& tensor : index.tensors) by_name.push_back(&tensor);
  std::sort(by_name.begin(), by_name.end(),
            [](const TensorMeta* a, const TensorMeta* b) { return a->name < b->name; });
  Message message;
  message.number(by_name.size());
  for (const TensorMeta* tensor : by_name) put(message, *tensor);
  message.number(index.metadata.size());
  for (const auto& [key, value] : index.metadata) {
    message.text(key);
    message.text(value);
  }
  return message.checksum();
}

}  // namespace slabload
