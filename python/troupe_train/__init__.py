"""Trains PyTorch modules with Troupe, an actor-based runtime for distributed SGD, from Python.

    import troupe_train

    run = troupe_train.run("dpsgd_ring", model=net, data=(x, y), validation=(xv, yv), set={"workers.count": 8})
    run.metrics          # the records of the run
    run.load_into(net)   # the trained weights

The package starts the command `troupe` and reads what it writes, so a run gives bit-identical results to one started in
a shell. Importing it imports neither torch nor pandas.
"""

from ._commands import check, compare, graph, run, simulate, start, timeline, tune
from ._process import RunError, TopologyError, TroupeError
from ._results import Comparison, Drawing, Plan, Report, Results, Run, Tuning, Watch, watch

__all__ = [
    "Comparison",
    "Drawing",
    "Plan",
    "Report",
    "Results",
    "Run",
    "RunError",
    "TopologyError",
    "TroupeError",
    "Tuning",
    "Watch",
    "check",
    "compare",
    "graph",
    "run",
    "simulate",
    "start",
    "timeline",
    "tune",
    "watch",
]
