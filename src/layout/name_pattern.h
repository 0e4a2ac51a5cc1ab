// Shell patterns whose wildcards capture: how names are rewritten.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace slabload {

class NamePattern {
 public:
  // Nothing if a bracket is not closed or a backslash ends the text.
  static std::optional<NamePattern> parse(std::string_view text);

  // Matches what glob_match (base/glob.h) does, byte by byte, and tells what each * ? [abc] stood for, in
  // order; nothing if the name does not match. Where there is a choice, a star takes as little as it can, the
  // leftmost first. Costs pattern times name at most.
  std::optional<std::vector<std::string_view>> match(std::string_view name) const;

  // The wildcards.
  std::size_t captures() const;

 private:
  struct Element {
    enum class Kind : std::uint8_t { literal, any, set, star };
    Kind kind;
    char byte = 0;      // literal
    std::string set{};  // "[...]"
    bool takes(char c) const;
  };
  std::vector<Element> elements_;
};

// Throws Status::usage naming `what` (an option, or a rule of a file) if `glob` is empty or no glob: fnmatch(3) would take
// an open bracket for a plain character, and so match what was not meant.
void check_glob(const std::string& glob, const std::string& what);

// `replace` with $1 to $9 exchanged for the captures and $$ for a dollar; nothing if it holds another $, or
// one beyond the captures there are.
std::optional<std::string> fill_captures(std::string_view replace,
                                         const std::vector<std::string_view>& captures);

}  // namespace slabload
