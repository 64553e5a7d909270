"""The packages: each is built and trains with the bits of the command that it was built from, without a library of this
machine. The wheel is installed into an environment of its own, and the others are unpacked."""

import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from troupe_command import BINARY, SOURCE, TINY, main, skip, troupe, write

TORCH = pathlib.Path(os.environ["TROUPE_TORCH_ROOT"])
# Part of every Linux with a C++ library.
OF_THE_SYSTEM = re.compile(r"(ld-linux.*|lib(c|m|dl|rt|pthread|util|stdc\+\+|gcc_s|z))\.so.*")

SCRATCH = tempfile.TemporaryDirectory(prefix="troupe-packages-")

if not shutil.which("dpkg-query"):
    skip("packages are built from Debian's libraries")


def call(*words, **settings):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=300, check=False, **settings)
    assert done.returncode == 0, f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}"
    return done


def package(kind):
    """Builds a package, and returns its path."""
    done = call(sys.executable, SOURCE / "scripts/package", kind, "--build", pathlib.Path(BINARY).absolute().parent,
                "--dist", tempfile.mkdtemp(dir=SCRATCH.name))
    return pathlib.Path(done.stdout.splitlines()[-1])


@functools.cache
def wheel():
    """Builds the wheel, and returns its path."""
    path = package("wheel")
    assert path.stat().st_size < 12e6, path
    return path


def installed():
    """Installs the wheel beside torch. Returns the environment, and the folder of its packages."""
    call(sys.executable, "-m", "venv", "--without-pip", "environment")
    site, = pathlib.Path("environment/lib").glob("python3*/site-packages")
    for package in TORCH.parent.iterdir():
        if not package.name.startswith(("troupe", "pip", "_distutils", "distutils")):
            (site / package.name).symlink_to(package)
    call(sys.executable, "-m", "pip", "--python", "environment/bin/python", "install", "--no-deps", "--no-index", wheel())
    return pathlib.Path("environment").absolute(), site.absolute()


def test_the_wheel_trains_with_the_bits_of_the_command_and_the_libraries_it_brings():
    (environment, site), nothing = installed(), {"OMP_NUM_THREADS": "1"}
    assert call(environment / "bin/troupe", "--version", env=nothing).stdout == call(BINARY, "--version", env=nothing).stdout
    file = write("tiny.toml", TINY)
    troupe("run", file, "--out", "built")
    loaded = call(site / "troupe_train/bin/troupe", "run", file, "--out", "packed",
                  env={**nothing, "LD_DEBUG": "libs"}).stderr
    assert pathlib.Path("built/model.safetensors").read_bytes() == pathlib.Path("packed/model.safetensors").read_bytes()
    for path in set(re.findall(r"calling init: (\S+)", loaded)):
        packed = path.startswith(str(site)) and ("troupe_train.libs/" in path or "/torch/lib/" in path)
        assert packed or OF_THE_SYSTEM.fullmatch(pathlib.Path(path).name), path


def test_the_example_of_the_readme():
    environment, _ = installed()
    example, = re.findall(r"^```python\n(.*?)^```$", (SOURCE / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    pathlib.Path("example.py").write_text(example)
    call(environment / "bin/python", "example.py", env={"OMP_NUM_THREADS": "1", "HOME": os.getcwd()})
    run, = pathlib.Path("runs").iterdir()
    assert (run / "model.safetensors").exists()


def check_launcher(prefix):
    """Trains with the launcher of an unpacked package, and has it refuse what is not the right LibTorch."""
    troupe_of = prefix / "bin/troupe"
    home = {"HOME": os.getcwd(), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"}
    file = write("tiny.toml", TINY)
    troupe("run", file, "--out", "built")
    call(troupe_of, "run", file, "--out", "packed", env={**home, "TROUPE_TORCH_ROOT": str(TORCH)})
    assert pathlib.Path("built/model.safetensors").read_bytes() == pathlib.Path("packed/model.safetensors").read_bytes()

    def refuses(*words, says, **more):
        done = subprocess.run([troupe_of, *words], capture_output=True, text=True, check=False, env={**home, **more})
        assert done.returncode == 2 and says in done.stderr, (words, done)
    refuses("list", says="run `troupe setup`")
    refuses("list", says="does not contain lib/libtorch_cpu.so", TROUPE_TORCH_ROOT=os.getcwd())
    pathlib.Path("other/lib").mkdir(parents=True)
    pathlib.Path("other/lib/libtorch_cpu.so").touch()
    pathlib.Path("other/version.py").write_text("__version__ = '2.12.0+cu130'\n")
    refuses("list", says="is 2.12.0+cu130, but this Troupe needs 2.11", TROUPE_TORCH_ROOT="other")
    refuses("setup", "--index", says="unknown argument --index of setup")

    for path in prefix.rglob("*.cmake"):
        assert str(SOURCE) not in path.read_text() and str(TORCH) not in path.read_text(), path
    assert (prefix / "include/troupe/command.hpp").exists() and list(prefix.rglob("libtroupe_runtime.a"))
    assert (prefix / "share/doc/troupe/licenses/troupe.txt").exists()


def test_the_tarball_works_in_any_folder():
    call("tar", "-xzf", package("tar"))
    prefix, = pathlib.Path().glob("troupe-*")
    check_launcher(prefix.absolute())


def test_the_debian_package_has_what_the_command_links():
    path = package("deb")
    depends = call("dpkg-deb", "--field", path, "Depends").stdout
    for name in ("libcaf-core0.17", "libcaf-io0.17", "libisal2", "libpng16-16", "libjemalloc2", "libstdc++6"):
        assert name in depends.replace(",", " ").split(), (name, depends)
    call("dpkg-deb", "--extract", path, "root")
    check_launcher(pathlib.Path("root/usr").absolute())


main(globals())
