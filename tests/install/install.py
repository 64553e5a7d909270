"""cmake --install, and programs outside the source tree that use the package: one loads saved weights and classifies,
and one is the command with an additional exchange."""

import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from nodes import EXCHANGE, LOOP, WIRINGS, background, node_tables, weights
from troupe_command import SOURCE, TINY, main, metrics, thorough, troupe, write

EXAMPLE = SOURCE / "examples/new_exchange"
SPIRALS = SOURCE / "examples/own_model/spirals.toml"
SCRATCH = tempfile.TemporaryDirectory(prefix="troupe-install-")
# A plug-in that claims what the command line of the compiler says.
PLUGIN = r'''
#include <cstddef>
struct { const char* libtorch; std::size_t layout; void (*register_kinds)(); } entry{LIBTORCH, 1, nullptr};
extern "C" decltype(entry) troupe_plugin() { return entry; }
'''


def call(*words):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=550, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}"
    return done.stdout


def install():
    """Installs into the current folder, and returns where."""
    call("cmake", "--install", os.environ["TROUPE_BUILD"], "--prefix", "prefix")
    return pathlib.Path("prefix").absolute()


@functools.cache
def installed():
    """Returns a folder with an installation for all tests that do not change it."""
    call("cmake", "--install", os.environ["TROUPE_BUILD"], "--prefix", f"{SCRATCH.name}/prefix")
    return pathlib.Path(SCRATCH.name, "prefix")


@functools.cache
def built(example):
    """Builds an example as a user's project. What the compiler cache has, it has for any folder."""
    os.environ |= {"CCACHE_BASEDIR": SCRATCH.name, "CCACHE_NOHASHDIR": "1"}
    folder = pathlib.Path(SCRATCH.name, example)
    call("cmake", "-G", "Ninja", "-S", SOURCE / "examples" / example, "-B", folder,
         "-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_PREFIX_PATH={installed()}",
         *(["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []))
    call("cmake", "--build", folder)
    return folder


def build(example):
    """Makes an example, built, and the installation available in the current folder."""
    pathlib.Path(example).symlink_to(built(example))
    if not pathlib.Path("prefix").exists():
        pathlib.Path("prefix").symlink_to(installed())


def included_by(header):
    """The headers of Troupe that a header includes, as paths below include/troupe."""
    return set(re.findall(r'^#include "troupe/(.+)"$', header.read_text(), re.MULTILINE))


def test_the_command_is_installed_and_the_public_headers_with_what_they_include():
    prefix = install()
    assert (prefix / "share/troupe/topologies/all_reduce.toml").exists()
    assert call(prefix / "bin/troupe", "--version")
    for path in ("man/man1/troupe.1", "man/man1/troupe-run.1", "man/man5/troupe-topology.5",
                 "bash-completion/completions/troupe", "zsh/site-functions/_troupe", "fish/vendor_completions.d/troupe.fish"):
        assert "troupe" in (prefix / "share" / path).read_text(), path
    headers = prefix / "include/troupe"
    installed = {path.relative_to(headers).as_posix() for path in headers.rglob("*") if not path.is_dir()}
    to_read = {path.name for path in (SOURCE / "include/troupe").iterdir()}
    assert to_read >= {"client.hpp", "command.hpp", "exchange.hpp", "codec.hpp", "graph.hpp", "model.hpp"}, to_read
    wanted = set()
    while to_read:
        wanted |= to_read
        to_read = {name for path in to_read for name in included_by(headers / path)} - wanted
    print(f"  {len(wanted)} headers")
    assert installed == wanted, installed ^ wanted
    framework = {path for path in wanted if "#include <caf/" in (headers / path).read_text()}
    assert framework == {"net/guests/attach.hpp", "net/guests/messages.hpp"}, \
        f"a program that adds an exchange would need the actor framework: {framework}"


def test_the_reference_of_the_public_headers_is_built_without_a_warning():
    """Doxygen reports every name without a comment, and docs/Doxyfile turns that into an error."""
    if not shutil.which("doxygen"):
        print("  SKIPPED: doxygen is not installed; scripts/setup --python installs it")
        return
    call("cmake", "--build", os.environ["TROUPE_BUILD"], "--target", "api")
    page = (pathlib.Path(os.environ["TROUPE_BUILD"]) / "api/html/classtroupe_1_1member.html").read_text()
    assert "Accepts the worker" in page


def test_an_installation_can_be_removed():
    prefix = install()
    (prefix / "bin/other").write_text("not of Troupe")
    call("cmake", "--build", os.environ["TROUPE_BUILD"], "--target", "uninstall")
    left = [path for path in prefix.rglob("*") if not path.is_dir()]
    assert left == [prefix / "bin/other"], left
    assert not list(prefix.rglob("troupe")) and not list(prefix.rglob("Troupe")), list(prefix.rglob("*roupe"))


def test_a_program_outside_the_tree_classifies_with_saved_weights():
    build("classify")
    tiny = write("tiny.toml", TINY.replace("steps = 20", "steps = 200").replace("batch_size = 8", "batch_size = 32"))
    troupe("run", tiny, "--out", "out")
    said = call("classify/classify", "out/model.safetensors")
    right = int(re.fullmatch(r"(\d+) of 100 right\n", said)[1])
    print(f"  {said.strip()}")
    assert right > 50, "200 steps of lenet beat chance by far"


def test_a_guest_outside_the_tree_needs_no_libtorch_and_stops_a_run_at_its_target():
    build("observer")
    needed = call("ldd", "observer/observer")
    assert "libcaf_io" in needed and "torch" not in needed and "c10" not in needed, needed
    endless = write("endless.toml", TINY.replace("steps = 20", "steps = 100000").replace("batch_size = 8", "batch_size = 32")
                    + "[evaluate]\nevery = 50\n")
    with background("run", endless, "--out", "watched", "--actors", "127.0.0.1:0") as run:
        run.until(pathlib.Path("watched/actors.json").exists, "the entrance")
        said = call("observer/observer", "watched", "0.5")
        run.wait(0)
    print(f"  {said.strip().splitlines()[-1]}")
    assert "the target is reached; the run ends" in said, said
    end = metrics("watched")[-1]
    assert end["status"] == "halted" and end["step"] < 100000, end


@thorough
def test_a_program_outside_the_tree_is_the_command_with_one_more_exchange():
    build("new_exchange")
    with_median = functools.partial(troupe, binary="new_exchange/troupe_with_median")
    file = EXAMPLE / "median.toml"
    assert "median" in troupe("run", file, status=2).stderr, "the command itself does not know it"

    listed = json.loads(with_median("list", "exchanges", "--json").stdout)["exchanges"]
    assert {"star", "median"} <= {kind["name"] for kind in listed}, listed
    plan = with_median("check", file).stdout
    for other in (1, 2, 3):
        assert f"worker {other} → worker 0   1 message, 504 KiB" in plan, plan
        assert f"worker 0 → worker {other}   1 message, 504 KiB" in plan, plan
    with_median("graph", file, "-o", "median.svg")

    with_median("run", file, "--out", "one")
    accuracy = metrics("one")[-1]["val_accuracy"]
    print(f"  the median of 4 workers: {accuracy:.3f}")
    assert accuracy > 0.5, "200 steps of lenet beat chance by far"

    # The same rule in a program of its own, which needs no LibTorch.
    build("remote_exchange")
    needed = call("ldd", "remote_exchange/median_server")
    assert "torch" not in needed and "c10" not in needed, needed
    with background("run", SOURCE / "examples/remote_exchange/median.toml", "--out", "remote", "--actors", "127.0.0.1:0") as run:
        run.until(pathlib.Path("remote/actors.json").exists, "the entrance")
        call("remote_exchange/median_server", "remote")
        run.wait(0)
    assert weights("one") == weights("remote"), "the weights differ from those of the rule in the run"

    # Nodes are this program again: the installed one could not run them.
    write("nodes.toml", file.read_text() + node_tables([2, 2]))
    with_median("run", "nodes.toml", "--out", "two")
    assert weights("one") == weights("two"), "the weights of two nodes differ from those of one process"

    wrong = write("wrong.toml", file.read_text() + 'send = "whole"\n')
    said = with_median("check", wrong, status=2).stderr
    print(" ", said.strip())
    assert re.search(r'wrong\.toml:\d+:\d+: "send" is a setting of star.*expected', said), said


@thorough
def test_a_second_exchange_draws_its_pairs_from_the_seed_of_the_run():
    build("random_pairs")
    with_pairs = functools.partial(troupe, binary="random_pairs/troupe_with_pairs")
    file = SOURCE / "examples/random_pairs/pairs.toml"
    plan = with_pairs("check", file).stdout
    assert "4 messages and 2.0 MiB of tensors per step, over 12 edges" in plan, plan
    assert "in 33.3 % of the exchanges" in plan, plan
    with_pairs("run", file, "--out", "once")
    with_pairs("run", file, "--out", "again")
    assert weights("once") == weights("again"), "the same seed gives the same weights"
    with_pairs("run", file, "--out", "other", "--set", "run.seed=2")
    assert weights("once") != weights("other")
    accuracy = metrics("once")[-1]["val_accuracy"]
    print(f"  random pairs of 4 workers: {accuracy:.3f}")
    assert accuracy > 0.5, "200 steps of lenet beat chance by far"


def spirals(binary, *words, **more):
    """Runs a command with the kinds of examples/own_model: the program, or the installed command with the plug-in."""
    program = binary == "program"
    return troupe(*words, *([] if program else ["--set", 'plugins=["own_model/libspirals.so"]']),
                  binary="own_model/troupe_with_spirals" if program else "prefix/bin/troupe", **more)


@thorough
def test_a_module_data_a_loss_and_an_optimizer_of_ones_own_in_a_program_and_in_a_plug_in():
    build("own_model")
    lines = sum(len(path.read_text().splitlines()) for path in SPIRALS.parent.iterdir() if path.suffix != ".toml")
    assert lines < 150, lines
    spirals("program", "run", SPIRALS, "--out", "program")
    spirals("plug-in", "run", SPIRALS, "--out", "plug-in")
    assert weights("program") == weights("plug-in"), "the weights of the plug-in differ from those of the program"
    accuracy = metrics("program")[-1]["val_accuracy"]
    print(f"  two spirals: {accuracy:.3f}")
    assert accuracy > 0.95, accuracy

    # Continued after a third, with the state of the optimizer, and without naming the plug-in again.
    spirals("plug-in", "run", SPIRALS, "--set", "run.epochs=12", "--set", "checkpoint.every=10 epochs", "--out", "parts")
    troupe("run", "--resume", "parts", "--set", "run.epochs=30", binary="prefix/bin/troupe")
    assert weights("parts") == weights("plug-in"), "the weights of a continued run differ"

    # The settings appear wherever others do.
    installed = functools.partial(troupe, binary="prefix/bin/troupe")
    plug_in = ["--plugin", "own_model/libspirals.so"]
    for listed, kind, key in [("models", "sine_net", "frequency"), ("losses", "focal", "gamma"),
                              ("data", "spirals", "turns"), ("optimizers", "lion", "beta2")]:
        kinds = {item["name"]: item for item in json.loads(installed("list", listed, "--json", *plug_in).stdout)[listed]}
        assert key in kinds[kind]["settings"], kinds[kind]
        assert f'= "{kind}")' in installed("explain", key, *plug_in).stdout
        assert f'"{key}"' in installed("explain", "--schema", *plug_in).stdout
        assert f"    {key} " not in installed("list", listed).stdout
    plan = spirals("plug-in", "check", SPIRALS).stdout
    for part in ("sine_net, frequency 6.0, ", "focal, gamma 1.0", "spirals, turns 1.5, ", "beta1 0.9, beta2 0.95"):
        assert part in plan, plan
    measured = json.loads(installed("eval", "plug-in/model.safetensors", *plug_in, "--json").stdout)
    last = metrics("plug-in")[-1]  # of the same samples, which depend on the seed
    assert measured["accuracy"] == last["val_accuracy"] and abs(measured["loss"] - last["val_loss"]) < 1e-6, (measured, last)
    assert installed("explain", *plug_in, "gamma").stdout == installed("explain", "gamma", *plug_in).stdout
    shutil.copy("own_model/libspirals.so", "again.so")
    twice = installed("check", SPIRALS, "--set", 'plugins=["own_model/libspirals.so", "again.so"]', status=2).stderr
    assert 'again.so cannot register its kinds: there is a data set called "spirals" already' in twice, twice
    assert "if a plug-in registers it, add --plugin FILE" in installed("eval", "plug-in/model.safetensors", status=2).stderr


@thorough
def test_kinds_of_ones_own_give_the_same_bytes_on_threads_and_nodes_under_every_deterministic_wiring():
    build("own_model")
    text = SPIRALS.read_text().split("[workers]")[0].replace("epochs = 30", "steps = 20")
    for name, (loop, exchange) in WIRINGS.items():
        wired = f"{text}[workers]\ncount = 4\nloop = [{loop}]\n{exchange}"
        one = write("one.toml", wired)
        more = write("more.toml", wired + node_tables([1, 2, 1]))
        spirals("program", "run", one, "--out", "one", "--overwrite")
        spirals("plug-in", "run", more, "--out", "more", "--overwrite")
        assert weights("one") == weights("more"), f"{name}: the weights differ"


@thorough
def test_a_plug_in_for_another_libtorch_or_troupe_is_refused():
    prefix = install()
    write("plugin.cpp", PLUGIN)

    def refused(libtorch):
        call(os.environ.get("CXX", "c++"), "-shared", "-fPIC", f'-DLIBTORCH="{libtorch}"', "plugin.cpp", "-o", "other.so")
        said = troupe("check", write("plug.toml", 'plugins = ["other.so"]\n'), status=2, binary=prefix / "bin/troupe").stderr
        print(" ", said.strip())
        assert "plug.toml:1:12: " in said and "compile the plug-in again" in said, said
        return said

    here = re.search(r"LibTorch 1\.0, and this program with LibTorch (\S+);", refused("1.0"))[1]
    assert "headers of another version of Troupe" in refused(here)


main(globals())
