// The builtins of the made-up NVRTC (nvrtc.cpp): its file is all that is asked for.
extern "C" {
const char* getBuiltinHeader() { return ""; }
}
