// One HTTP request, by libcurl (curl.cpp; no_curl.cpp in a program that was built without it). Proxies and their
// exceptions come from the environment's http_proxy, https_proxy, all_proxy and no_proxy, certificates from
// CURL_CA_BUNDLE, SSL_CERT_FILE or SSL_CERT_DIR, otherwise from the system's files.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace ct {

struct HttpRequest {
  std::string address;           // http:// or https://; a redirection to another protocol is refused
  uint64_t from = 0;             // the first byte that is asked for
  std::chrono::seconds stall{};  // given up after so long without a connection, or with less than 1000 bytes a second
  /// Called before the first bytes: where in the file they belong. That is `from`, or 0 if the server sends the whole
  /// file.
  std::function<void(uint64_t at)> begin;
  std::function<bool(std::span<const std::byte>)> take;  // false: no more of them
};

struct HttpAnswer {
  int status = 0;       // of HTTP; 0: there was none
  std::string problem;  // in one line, with the remedy if it is known; empty: everything came that the server announced
};

/// What begin() and take() throw is thrown on. Error(usage) without libcurl.
HttpAnswer http_get(const HttpRequest& request);

/// Name and version of libcurl, or "none (REASON)".
std::string http_library();

}  // namespace ct
