// The tables of real models in tests/tables.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "index/table.h"

namespace slabload::testing {

inline constexpr const char* kTables[] = {"qwen2.5-0.5b.tsv", "qwen2.5-coder-7b.tsv", "qwen2.5-vl-7b.tsv",
                                          "qwen2.5-vl-32b.tsv", "qwen2.5-vl-72b.tsv"};

inline TensorIndex table(const std::string& name) {
  std::filesystem::path path = std::filesystem::path(__FILE__).parent_path() / "../tables" / name;
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path.string() + "; run the tests from the top folder");
  return parse_table(std::string(std::istreambuf_iterator<char>(in), {}), name);
}

}  // namespace slabload::testing
