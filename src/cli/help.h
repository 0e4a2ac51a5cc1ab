// Usage texts, made from the table that the parser uses.
#pragma once

#include <string>

namespace slabload {

// The usage of a verb, or the overview of all verbs for "". Throws Status::usage if `topic` is no verb, or
// one that this version lacks.
std::string help_text(const std::string& topic);

// "slabload 0.1.0" and a newline.
std::string version_text();

}  // namespace slabload
