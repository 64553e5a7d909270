// The same kinds as a plug-in, which the installed command loads.
#include "troupe/plugin.hpp"

void register_spirals();  // in spirals.cpp

TROUPE_PLUGIN {
  register_spirals();
}
