# cmake --install: the command, the libraries, the headers, and a package that find_package(Troupe) finds.
