// Lets threads that pass messages run soon after they are woken, even if lanes occupy all cores.
#pragma once

namespace troupe {

/// Asks the system to give the calling thread short time slices. On Linux 6.12 and later, such a thread interrupts
/// others with longer ones soon after it is woken, and still gets no more than its share of a core. Threads that it
/// starts have slices of the usual length. Best effort: if the system does not support or allow it, nothing changes.
void use_short_slices();

}  // namespace troupe
