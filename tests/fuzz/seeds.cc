// Writes the inputs that the fuzz targets begin with: small ones of every kind. seeds FOLDER makes FOLDER/TARGET/NAME.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fakes/safetensors_bytes.h"
#include "index/table.h"

using namespace slabload;
using slabload::testing::safetensors_bytes;

namespace {

std::string folder;

void seed(const std::string& target, const std::vector<std::string>& inputs) {
  std::filesystem::create_directories(folder + "/" + target);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    std::ofstream out(folder + "/" + target + "/seed-" + std::to_string(i), std::ios::binary);
    out << inputs[i];
  }
}

// A header in front of that many bytes of data, which the target does not want to see.
std::string header_only(std::uint64_t data_bytes, const std::string& json) {
  std::string out(8, '\0');
  std::memcpy(out.data(), &data_bytes, 8);
  return out + json;
}

std::string every_dtype() {
  std::string json = "{";
  std::uint64_t offset = 0;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const std::uint64_t end = offset + 6 * dtype_size(dtype);
    json += (i ? "," : "") + std::string("\"t") + std::to_string(i) + R"(":{"dtype":")" +
            std::string(safetensors_name(dtype)) + R"(","shape":[2,3],"data_offsets":[)" + std::to_string(offset) + "," +
            std::to_string(end) + "]}";
    offset = end;
  }
  return safetensors_bytes(json + "}", std::string(offset, 'x'));
}

void safetensors_seeds() {
  const std::string two = R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                          R"("b.c":{"dtype":"U8","shape":[],"data_offsets":[8,9]}})";
  seed("safetensors_header",
       {safetensors_bytes("{}", ""), safetensors_bytes(two, "123456789"), every_dtype(), header_only(9, two),
        safetensors_bytes(R"({"e":{"dtype":"BF16","shape":[0,4],"data_offsets":[0,0]}}   )", ""),
        header_only(1ull << 40, R"({"big":{"dtype":"F64","shape":[1048576,131072],"data_offsets":[0,1099511627776]}})"),
        header_only(16, R"({"y":{"dtype":"I64","shape":[1],"data_offsets":[8,16]},)"
                        R"("x":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})"),
        safetensors_bytes(R"({"\u00e9\n\"":{"dtype":"BOOL","shape":[1,1],"data_offsets":[0,1]}})", "1"),
        safetensors_bytes(two, "1234"), safetensors_bytes(R"({"a":[[[[[[]]]]]]})", "")});
}

void table_seeds() {
  seed("table", {"a\tbf16\t896,4864\n", "# comment\n\nw.x\tF32\t3\r\nb\tbool\t\nc\tf8_e4m3\t0,7\n",
                 "big\tf64\t1048576,1048576,16\nscalar\ti64\t()\nlast\tu8\t1", "a\tf32\t2\na\tf32\t2\n",
                 "too\tmany\tcolumns\there\n"});
}

void index_seeds() {
  TensorIndex index;
  index.path = "dir/model";
  index.format = "hdf5";
  index.files = {{"dir/a.h5", 1000, -5, 77}, {"dir/b.h5", 1ull << 40, 1700000000123456789, 78}};
  TensorMeta t;
  t.name = "a/weight";
  t.aliases = {"alias", "other"};
  t.path = "/a/weight";
  t.dtype = DType::bf16;
  t.shape = {3, 5};
  t.storage = StorageKind::chunked;
  t.file = 1;
  t.chunk = {2, 5};
  t.filters = {"shuffle", "deflate(6)"};
  t.crc64 = 0x995dc9bbdf1939fa;
  index.tensors.push_back(t);
  t = {};
  t.name = "filled";
  t.dtype = DType::f32;
  t.shape = {7};
  t.big_endian = true;
  t.storage = StorageKind::fill;
  t.fill = {0, 0, 128, 63};
  index.tensors.push_back(t);
  index.skipped = {{"notes", "a string"}};
  index.metadata = {{"format", "pt"}, {"k", ""}};
  index.metadata_bytes = 800;
  seed("index", {to_bytes(index), to_bytes(TensorIndex{}),
                 to_bytes(parse_table("a\tbf16\t8,4\nscalar\ti64\t\n", "table.tsv"))});
}

void rules_seeds() {
  seed("rules",
       {R"j({"rules": [{"match": "*.weight", "placements": {"dp_shard": "S(0)"}}], "default": {}})j",
        R"j({"mesh": "dp=2,tp=3", "rules": [{"match": "model.embed*", "placements": {"tp": "S(-1)", "dp": "R"}},)j"
        R"j({"match": "*", "placements": {"dp": "F"}}]})j",
        R"j({"mesh": {"a": 2, "b": 2}, "rules": [{"match": "*proj*", "placements": {"a": "SS(0,2)", "b": "S(0)"}}],)j"
        R"j("default": {"b": "R"}})j",
        R"j({"mesh": "a=4", "rules": [], "default": {"a": "R"}, "rename": [{"match": "model.*", "replace": "m.$1"}],)j"
        R"j("alias": [{"name": "new", "of": "lm_head.weight"}]})j",
        R"j({"rename": [{"match": "model.layers.[01].*", "replace": "$$l$1/$2"}, {"match": "?calar", "replace": "s$1"}]})j",
        R"j({"rules": [{"match": "*", "placements": {"x": "P"}}]})j", R"j({"rules": [{"match": "[", "placements": {}}]})j"});
}

void plan_seeds() {
  seed("plan_text",
       {"--table\nt.tsv\n--mesh\ndp_replicate=2,dp_shard=3\n--layout\nhsdp\n--strategy\nauto",
        "--table\nt\n--ranks\n4\n--staging\n16KiB\n--min-read\n64\n--strategy\nslab\n--align\n0",
        "--table\nt\n--mesh\ntp=2,dp_shard=2\n--layout\nfsdp2+tp\n--cost\nfs=5GB/s,fabric=50GB/s,request=0.5ms",
        "--table\nt\n--ranks\n3\n--layout\nzero3\n--strategy\nlinear\n--cast\nbf16\n--device\ncuda\n--slots\n3",
        "--table\nt\n--ranks\n5\n--layout\nfsdp1\n--slot-bytes\n4KiB\n--select\n*weight\n--exclude\nlm*",
        "m.h5\n--mesh\na=2,b=2\n--layout\nrules.json\n--explain\nscalar\n--ranks-per-node\n2",
        "--table\nt\n--ranks\n4\n--strategy\nrank0-full\n--json", "--table\nt\n--strategy\nevery-rank\n--ranks\n2",
        "SS(0,4)\nS(-1)\nF\nR\nP\n1.5GiB\n300s\n5min\nmodel.*.[a-c]?\nmodel.x.b1\nrequest=1us,message=2ms,copy=1GB/s"});
}

void chunk_seeds() {
  std::ifstream in(std::filesystem::path(__FILE__).parent_path() / "../vectors/chunks.json");
  std::vector<std::string> inputs;
  for (const nlohmann::json& c : nlohmann::json::parse(in)) {
    std::string input(3, '\3');
    for (std::size_t i = 0; i < c["filters"].size(); ++i)
      input[i] = c["filters"][i] == "deflate" ? '\0' : c["filters"][i] == "shuffle" ? '\1' : '\2';
    const std::size_t bytes = c["plain"].get<std::string>().size() / 2 - 1;
    for (std::size_t value : {c["element"].get<std::size_t>(), std::size_t{0}, bytes % 256, bytes / 256}) input += static_cast<char>(value);
    const std::string stored = c["stored"];
    for (std::size_t i = 0; i < stored.size(); i += 2) input += static_cast<char>(std::stoi(stored.substr(i, 2), nullptr, 16));
    inputs.push_back(input);
  }
  seed("chunk", inputs);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  folder = argv[1];
  safetensors_seeds();
  table_seeds();
  index_seeds();
  rules_seeds();
  plan_seeds();
  chunk_seeds();
  return 0;
}
