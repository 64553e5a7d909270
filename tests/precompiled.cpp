// Empty: CMake needs a source file to build the precompiled header of this target.
