// The error that a call ends with, for tests of refusals.
#pragma once

#include <gtest/gtest.h>

#include "base/error.h"

namespace slabload::testing {

// Calls `action`, which must throw an Error whose message is one line, and returns it.
template <typename Action>
Error thrown_error(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.message().find('\n'), std::string::npos) << error.message();
    EXPECT_FALSE(error.message().empty());
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(Status::ok, "");
}

}  // namespace slabload::testing
