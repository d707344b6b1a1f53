#include "base/error.h"
#include "fetch/address.h"
#include "fetch/http.h"

namespace ct {

HttpAnswer http_get(const HttpRequest& request) {
  fail(ExitCode::usage, "this program was built without libcurl, so it downloads nothing: download ",
       without_password(request.address), " in another way, or install libcurl4-openssl-dev and build again");
}

std::string http_library() { return "none (built without libcurl)"; }

}  // namespace ct
