"""cmake --install, and a program outside the tree that finds the package, loads saved weights and classifies."""

import os
import pathlib
import re
import subprocess

from troupe_command import SOURCE, TINY, main, troupe, write


def call(*words):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=550, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_a_program_outside_the_tree_classifies_with_saved_weights():
    call("cmake", "--install", os.environ["TROUPE_BUILD"], "--prefix", "prefix")
    prefix = pathlib.Path("prefix").absolute()
    assert (prefix / "share/troupe/topologies/all_reduce.toml").exists()
    assert call(prefix / "bin/troupe", "--version")
    call("cmake", "-G", "Ninja", "-S", SOURCE / "examples/classify", "-B", "classify",
         "-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_PREFIX_PATH={prefix}",
         *(["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if call("sh", "-c", "command -v ccache || true") else []))
    call("cmake", "--build", "classify")
    tiny = write("tiny.toml", TINY.replace("steps = 20", "steps = 200").replace("batch_size = 8", "batch_size = 32"))
    troupe("run", tiny, "--out", "out")
    said = call("classify/classify", "out/model.safetensors")
    right = int(re.fullmatch(r"(\d+) of 100 right\n", said)[1])
    print(f"  {said.strip()}")
    assert right > 50, "200 steps of lenet beat chance by far"


main(globals())
