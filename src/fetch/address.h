// Addresses in messages.
#pragma once

#include <string>

namespace ct {

/// `text` with an address, of whose user and password "..." is left: "http://...@host/folder".
std::string without_password(std::string text);

}  // namespace ct
