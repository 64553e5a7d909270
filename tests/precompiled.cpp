// Only its precompiled header is used; CMake wants a source file.
