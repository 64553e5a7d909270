"""The packages: each is built and trains with the bits of the command that it was built from, without a library of this
machine. The wheel is installed into an environment of its own, and the others are unpacked."""

import fcntl
import functools
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

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
    """Builds a package, as a user whose files others cannot read, and returns its path."""
    done = call(sys.executable, SOURCE / "scripts/package", kind, "--build", pathlib.Path(BINARY).absolute().parent,
                "--dist", tempfile.mkdtemp(dir=SCRATCH.name), umask=0o077)
    return pathlib.Path(done.stdout.splitlines()[-1])


def check_modes(files):
    """Demands that all users can read the files of an archive, and execute the launcher."""
    for file in files:
        executable = file.isdir() or file.name.endswith(("bin/troupe", "lib/troupe/troupe"))
        assert file.mode == (0o755 if executable else 0o644), (file.name, oct(file.mode))


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
    refuses("list", says="run `troupe setup`", XDG_DATA_HOME="relative")
    for words in (["--help"], ["help", "setup"], ["setup", "--help"]):
        assert "troupe setup --index-url URL" in call(troupe_of, *words, env=home).stdout, words
    told = call(troupe_of, "--help", env={**home, "TROUPE_TORCH_ROOT": str(TORCH)}).stdout
    assert told.startswith(call(BINARY, "--help").stdout) and "`troupe help setup`" in told, told
    refuses("list", says="does not contain lib/libtorch_cpu.so", TROUPE_TORCH_ROOT=os.getcwd())
    pathlib.Path("other/lib").mkdir(parents=True)
    pathlib.Path("other/lib/libtorch_cpu.so").touch()
    pathlib.Path("other/version.py").write_text("__version__ = '2.12.0+cu130'\n")
    refuses("list", says="is 2.12.0+cu130, but this Troupe needs 2.11", TROUPE_TORCH_ROOT="other")
    pathlib.Path("other/version.py").unlink()
    refuses("list", says="is of an unknown version, but this Troupe needs 2.11", TROUPE_TORCH_ROOT="other")
    pathlib.Path("a:b").symlink_to(TORCH)
    refuses("list", says="a:b contains a colon", TROUPE_TORCH_ROOT="a:b")
    refuses("setup", "--index", says="unknown argument --index of setup")
    refuses("setup", "--index-url", says="--index-url needs a URL")

    for path in prefix.rglob("*.cmake"):
        assert str(SOURCE) not in path.read_text() and str(TORCH) not in path.read_text(), path
    assert (prefix / "include/troupe/command.hpp").exists() and list(prefix.rglob("libtroupe_runtime.a"))
    for name in ("licenses/troupe.txt", "copyright"):
        assert (prefix / "share/doc/troupe" / name).exists(), name


def check_find_package(prefix):
    """A program is configured with the LibTorch that the launcher would take, or told how to fetch one."""
    write("CMakeLists.txt", "cmake_minimum_required(VERSION 3.25)\nproject(user CXX)\nfind_package(Troupe REQUIRED)\n")
    words = ["cmake", "-B", "without", f"-DCMAKE_PREFIX_PATH={prefix}"]
    variables = {"HOME": os.getcwd(), "PATH": os.environ["PATH"]}
    done = subprocess.run(words, capture_output=True, text=True, env=variables, check=False)
    assert done.returncode != 0 and "Run `troupe setup`" in done.stderr, done
    call("cmake", "-B", "with", f"-DCMAKE_PREFIX_PATH={prefix}", env={**variables, "TROUPE_TORCH_ROOT": str(TORCH)})


def test_the_tarball_works_in_any_folder():
    with tarfile.open(package("tar")) as packed:
        check_modes(packed)
        packed.extractall()
    prefix, = pathlib.Path().glob("troupe-*")
    check_launcher(prefix.absolute())
    check_find_package(prefix.absolute())


def test_the_debian_package_has_what_the_command_links():
    path = package("deb")
    depends = call("dpkg-deb", "--field", path, "Depends").stdout
    for name in ("libcaf-core0.17", "libcaf-io0.17", "libisal2", "libpng16-16", "libjemalloc2", "libstdc++6"):
        assert name in depends.replace(",", " ").split(), (name, depends)
    packed = subprocess.run(["dpkg-deb", "--fsys-tarfile", path], stdout=subprocess.PIPE, check=True).stdout
    check_modes(tarfile.open(fileobj=io.BytesIO(packed)))
    assert "`troupe setup`" in call("dpkg-deb", "--field", path, "Description").stdout
    assert "/var/lib/troupe-torch" in call("dpkg-deb", "--info", path, "postrm").stdout
    call("dpkg-deb", "--extract", path, "root")
    check_launcher(pathlib.Path("root/usr").absolute())


def test_setup_fetches_libtorch_once_and_removes_what_is_left_of_others():
    pathlib.Path("index/torch").mkdir(parents=True)
    with zipfile.ZipFile("index/torch/torch-2.11.0-py3-none-any.whl", "w") as packed:
        packed.writestr("torch/lib/libtorch_cpu.so", "")
        packed.writestr("torch-2.11.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: torch\nVersion: 2.11.0\n")
        packed.writestr("torch-2.11.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        packed.writestr("torch-2.11.0.dist-info/RECORD", "")
    write("index/torch/index.html", '<a href="torch-2.11.0-py3-none-any.whl">torch-2.11.0-py3-none-any.whl</a>')
    pathlib.Path("programs").mkdir()
    write("programs/id", "#!/bin/sh\necho 1000\n")  # for a test that runs as root
    pathlib.Path("programs/id").chmod(0o755)
    folder = pathlib.Path("data/troupe").absolute()
    (folder / "setup.killed").mkdir(parents=True)
    (folder / "torch-2.11.0/torch/lib").mkdir(parents=True)
    variables = {"PATH": f"{os.getcwd()}/programs:/usr/bin:/bin", "XDG_DATA_HOME": str(folder.parent),
                 "PIP_USER": "1", "PIP_TARGET": "/nonexistent"}

    def setup(index, status=0):
        done = subprocess.run([SOURCE / "deploy/package/troupe", "setup", f"--index-url=file://{os.getcwd()}/{index}"],
                              capture_output=True, text=True, env=variables, check=False)
        assert done.returncode == status, done
        return done.stdout + done.stderr

    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "another setup is running" in setup("index", status=2)
    assert "pip could not fetch LibTorch; its reason is above" in setup("nothing", status=2)
    assert "LibTorch is in" in setup("index")
    assert sorted(os.listdir(folder)) == ["lock", "torch-2.11.0"], os.listdir(folder)
    assert (folder / "torch-2.11.0/torch/lib/libtorch_cpu.so").exists()
    assert "is already in" in setup("index")


def test_what_cannot_be_packed_is_refused():
    def refuses(*words, says, **more):
        done = subprocess.run([sys.executable, SOURCE / "scripts/package", "deb", *words], capture_output=True,
                              text=True, env={**os.environ, **more}, check=False)
        assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr, done
    build = ["--build", pathlib.Path(BINARY).absolute().parent]
    write("file", "")
    refuses(*build, "--dist", "file", says="expected a folder")
    refuses("--build", ".", "--dist", "dist", says="does not contain the command")
    refuses(*build, "--dist", "dist", says="not found: /nonexistent/bin/python", TROUPE_VENV="/nonexistent")


main(globals())
