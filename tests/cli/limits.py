"""Numbers at the edge and sizes without end: what is too large is refused with its limit, before anything of that size is
made, and nothing wraps."""

import resource
import subprocess
import time

from troupe_command import BINARY, TINY, main, troupe, write

MLP = TINY.replace('"lenet"', '"mlp"\nwidth = 65536\nlayers = 3')


def limited(bytes_of_memory, *arguments, timeout=60):
    """What the command does in an address space of this size."""
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (bytes_of_memory, bytes_of_memory))

    done = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, timeout=timeout,
                          stdin=subprocess.DEVNULL, check=False, preexec_fn=limit)
    for inside in "enforce fail", "bad_alloc", "alloc_cpu", "c10::", "terminate":
        assert inside not in done.stderr, done.stderr
    return done


def refused(says, *arguments, memory=10_000_000 * 1024, status=2):
    done = limited(memory, *arguments)
    assert done.returncode == status and says in done.stderr, (arguments, done.returncode, done.stderr)
    return done


def test_a_model_beyond_the_memory_is_refused_before_it_is_made():
    write("wide.toml", MLP)
    begin = time.process_time()
    for command in ("check", "wide.toml"), ("run", "wide.toml", "--out", "out"), ("simulate", "wide.toml", "--out", "out"):
        refused("the model mlp has 8,642,166,800 parameters", *command)
        refused("reduce model.layers or model.width", *command)
    assert time.process_time() - begin < 60
    write("gpt.toml", '[model]\nname = "gpt"\nwidth = 32768\nlayers = 64\n[data]\nname = "text"\nfile = "a.txt"\n')
    write("a.txt", "to be or not to be, that is the question. " * 100)
    refused("the model gpt has", "check", "gpt.toml")
    # Its images make the model large.
    refused("a worker needs at least", "check", write("resnet.toml", TINY.replace(
        '"lenet"', '"wide_resnet"\nwidth = 4096\nlayers = 16')))


def test_data_beyond_the_memory_is_refused_before_it_is_made():
    sparse = '[model]\nname = "logistic"\n[data]\nname = "sparse"\nrows = 100000000\ncolumns = 1000\nnonzeros = 500\n'
    refused("data.rows = 100000000 with data.columns = 1000 and data.nonzeros = 500 takes", "check",
            write("sparse.toml", sparse))
    refused("data.columns = 2000000000", "run", write("columns.toml", sparse.replace(
        "100000000", "10").replace("1000\n", "2000000000\n")), "--out", "out")


def test_workers_beyond_the_memory_are_a_warning_of_check_and_refused_by_run():
    text = MLP.replace("65536", "8192").replace("count = 2", "count = 100")
    said = troupe("check", write("many.toml", text)).stdout
    said = " ".join(said.split())
    assert "`troupe run` refuses this file here" in said and "workers.count = 100 needs at least" in said, said
    refused("workers.count = 100 needs at least", "run", "many.toml", "--out", "out")


def test_durations_name_their_limit():
    for key, value in ("run.timeout", "10001h"), ("run.join_timeout", "20000h"), ("run.silence", "1e9h"):
        said = troupe("check", write("file.toml", TINY), "--set", f"{key}={value}", status=2).stderr
        assert "to 10000h" in said, said
    said = troupe("check", "file.toml", "--set", "simulate.gradient=10001h", status=2).stderr
    assert "of at most 10000h" in said, said
    said = troupe("check", "file.toml", "--set", "evaluate.every=1000000000001", status=2).stderr
    assert "from 1 to 1000000000000" in said, said


def test_no_time_of_a_simulation_wraps():
    server = ('[run]\nsteps = 3\ntimeout = "10000h"\n[model]\nname = "mlp"\nwidth = 4\n[data]\nname = "digits"\n[workers]\n'
              'count = 2\nslowdown = [1, {slow}]\n[exchange]\nkind = "{kind}"\n[simulate]\n'
              'gradient = "{gradient}"\njitter = 0.0\n{more}')
    for slow, gradient, more in ((1_000_000, "2000h", ""), (1_000_000, "3000h", ""), (1_000_000, "10000h", "cores = 1"),
                                 (1, "10000h", "cores = 1")):
        for kind in "parameter_server", "all_reduce":
            file = write("file.toml", server.format(slow=slow, gradient=gradient, more=more, kind=kind))
            done = troupe("simulate", file, "--compute", "none", "--out", "out", "--overwrite", "--quiet", status=1,
                          timeout=60)
            assert "run.timeout" in done.stderr or "longer than a hundred years" in done.stderr, done.stderr


def test_a_graph_with_too_many_edges_is_refused():
    for settings in 'graph = "complete"', 'graph = "random_regular"\ndegree = 5000':
        text = TINY.replace("count = 2", "count = 100000").replace('"all_reduce"', f'"gossip"\n{settings}').replace(
            "batch_size = 8", 'batch_size = 1\nsplit = "all"')
        said = troupe("check", write("file.toml", text), status=2).stderr
        assert "edges; expected at most 16773120" in said, said


main(globals())
