#include <curl/curl.h>
#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string_view>

#include "base/error.h"
#include "base/paths.h"
#include "base/text.h"
#include "base/version.h"
#include "fetch/address.h"
#include "fetch/http.h"

namespace ct {
namespace {

/// libcurl's functions, by their names here and in the library, which is opened when something is downloaded: it needs
/// many others, which every start of every rank would have to load.
#define CT_CURL_FUNCTIONS(X)     \
  X(start, curl_global_init)     \
  X(init, curl_easy_init)        \
  X(cleanup, curl_easy_cleanup)  \
  X(setopt, curl_easy_setopt)    \
  X(getinfo, curl_easy_getinfo)  \
  X(header, curl_easy_header)    \
  X(perform, curl_easy_perform)  \
  X(text_of, curl_easy_strerror) \
  X(versions, curl_version)

struct CurlApi {
#define CT_MEMBER(name, function) decltype(&function) name;
  CT_CURL_FUNCTIONS(CT_MEMBER)
#undef CT_MEMBER
};

template <class Function>
void find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr)
    fail(ExitCode::usage, "libcurl has no ", name, ": install version 7.85 or later (Debian's package libcurl4)");
}

/// The library, which then stays open.
const CurlApi& curl_api() {
  static const CurlApi kApi = [] {
    void* library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_NODELETE);
    if (library == nullptr)
      fail(ExitCode::usage, "libcurl, which downloads, cannot be opened (", dlerror(),
           "): install Debian's package libcurl4, or download in another way");
    CurlApi api{};
#define CT_FIND(name, function) find(library, #function, api.name);
    CT_CURL_FUNCTIONS(CT_FIND)
#undef CT_FIND
    if (api.start(CURL_GLOBAL_DEFAULT) != CURLE_OK) fail(ExitCode::usage, "libcurl cannot be used");
    return api;
  }();
  return kApi;
}

constexpr long kSlow = 1000;  // bytes a second
constexpr long kMostRedirections = 10;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

struct Transfer {
  explicit Transfer(const HttpRequest& of) : request(of), handle(curl.init(), curl.cleanup) {
    check(handle != nullptr, "libcurl has no handle");
  }

  template <class Value>
  void set(CURLoption option, Value value) {
    const CURLcode code = curl.setopt(handle.get(), option, value);
    check(code == CURLE_OK, "libcurl refuses option ", static_cast<int>(option), ": ", curl.text_of(code));
  }

  long status() const {
    long code = 0;
    curl.getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &code);
    return code;
  }

  /// "bytes 100-199/200" must begin where it was asked to. Called at the first bytes.
  bool begins() {
    if (status() != 206) {
      request.begin(0);
      return true;
    }
    curl_header* range = nullptr;
    const bool given = curl.header(handle.get(), "Content-Range", 0, CURLH_HEADER, -1, &range) == CURLHE_OK;
    if (!given || !std::string_view(range->value).starts_with(str("bytes ", request.from, "-"))) {
      refusal = str("sends another part of the file than was asked for",
                    given ? str(" (Content-Range: ", range->value, ")") : "");
      return false;
    }
    request.begin(request.from);
    return true;
  }

  const CurlApi& curl = curl_api();
  const HttpRequest& request;
  std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> handle;
  std::array<char, CURL_ERROR_SIZE> reason{};
  bool begun = false;
  std::string refusal;
  std::exception_ptr fault;
};

size_t take(const char* bytes, size_t, size_t size, void* to) {
  Transfer& transfer = *static_cast<Transfer*>(to);
  try {
    if (!transfer.begun && !transfer.begins()) return CURL_WRITEFUNC_ERROR;
    transfer.begun = true;
    return transfer.request.take(std::as_bytes(std::span(bytes, size))) ? size : CURL_WRITEFUNC_ERROR;
  } catch (...) {  // must not pass through libcurl
    transfer.fault = std::current_exception();
    return CURL_WRITEFUNC_ERROR;
  }
}

/// The system's certificates. libcurl knows one place, that of the distribution on which it was built; the curl
/// command reads the variables, and so does this.
void set_certificates(Transfer& transfer) {
  const std::string folder = variable("SSL_CERT_DIR");
  if (!folder.empty()) transfer.set(CURLOPT_CAPATH, folder.c_str());
  for (const char* name : {"CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    if (const std::string file = variable(name); !file.empty()) return transfer.set(CURLOPT_CAINFO, file.c_str());
  }
  // Debian, Ubuntu and Arch; Red Hat; openSUSE; Alpine
  for (const char* file : {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                           "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"})
    if (is_there(file)) return transfer.set(CURLOPT_CAINFO, file);
}

/// " (https_proxy is set)", if a variable names a proxy for the address.
std::string proxy_note(const std::string& address) {
  const bool secure = address.starts_with("https:");
  for (const char* name :
       {secure ? "https_proxy" : "http_proxy", secure ? "HTTPS_PROXY" : "", "all_proxy", "ALL_PROXY"})
    if (*name != '\0' && !variable(name).empty()) return str(" (", name, " is set)");
  return "";
}

}  // namespace

HttpAnswer http_get(const HttpRequest& request) {
  Transfer transfer(request);
  const std::string range = str(request.from, "-");
  transfer.set(CURLOPT_URL, request.address.c_str());
  transfer.set(CURLOPT_PROTOCOLS_STR, "http,https");
  transfer.set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  transfer.set(CURLOPT_FOLLOWLOCATION, 1L);
  transfer.set(CURLOPT_MAXREDIRS, kMostRedirections);
  transfer.set(CURLOPT_FAILONERROR, 1L);
  transfer.set(CURLOPT_NOSIGNAL, 1L);
  transfer.set(CURLOPT_USERAGENT, str("cifar-train/", version()).c_str());
  transfer.set(CURLOPT_CONNECTTIMEOUT, static_cast<long>(request.stall.count()));
  transfer.set(CURLOPT_LOW_SPEED_LIMIT, kSlow);
  transfer.set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(request.stall.count()));
  transfer.set(CURLOPT_ERRORBUFFER, transfer.reason.data());
  transfer.set(CURLOPT_WRITEFUNCTION, &take);
  transfer.set(CURLOPT_WRITEDATA, static_cast<void*>(&transfer));
  if (request.from > 0) transfer.set(CURLOPT_RANGE, range.c_str());
  set_certificates(transfer);

  const CURLcode code = transfer.curl.perform(transfer.handle.get());
  if (transfer.fault) std::rethrow_exception(transfer.fault);
  HttpAnswer answer{.status = static_cast<int>(transfer.status()), .problem = transfer.refusal};
  if (!answer.problem.empty()) return answer;
  if (code == CURLE_HTTP_RETURNED_ERROR && answer.status != 0) {  // 0: a proxy has refused
    answer.problem = str("the server answers ", answer.status, proxy_note(request.address));
  } else if (code == CURLE_OUT_OF_MEMORY) {  // libcurl limits a line, and tells so
    answer.problem = str("the server's answer has too long a header", proxy_note(request.address));
  } else if (code != CURLE_OK) {
    const std::string_view reason = transfer.reason.data();
    answer.problem =
        str(reason.empty() ? transfer.curl.text_of(code) : without_password(std::string(trimmed(reason, " \t\r\n"))),
            proxy_note(request.address));
  } else if (answer.status != 200 && answer.status != 206) {
    answer.problem = str("the server answers ", answer.status, " without the file");
  }
  return answer;
}

std::string http_library() {
  try {
    const std::string versions = curl_api().versions();  // "libcurl/7.88.1", then those of what it uses
    return versions.substr(0, versions.find(' '));
  } catch (const Error& error) {
    return str("none (", error.what(), ")");
  }
}

}  // namespace ct
