"""The Python package passes mypy --strict and ruff, and the oldest Python that it names can parse it."""

import ast
import importlib.util
import subprocess
import sys

from troupe_command import SOURCE, main, skip

FOLDER = SOURCE / "python"


def tool(*words):
    if importlib.util.find_spec(words[0]) is None:
        skip(f"{words[0]} is not installed in this Python")
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, cwd=FOLDER, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_oldest_python_can_parse_it():
    for path in (FOLDER / "troupe_train").glob("*.py"):
        ast.parse(path.read_text(), path.name, feature_version=(3, 10))


def test_no_path_of_a_machine_is_in_it():
    for path in (FOLDER / "troupe_train").iterdir():
        text = path.read_text() if path.is_file() else ""
        assert not any(word in text for word in ("/work/", "/home/", "/tmp/")), path


def test_mypy_strict():
    tool("mypy", "--strict", "--cache-dir", "/dev/null", "troupe_train")


def test_ruff():
    tool("ruff", "check", "--no-cache", ".")
    tool("ruff", "format", "--no-cache", "--check", ".")


main(globals())
