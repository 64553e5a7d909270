"""Runs what the documents show. Each document gets a fresh folder that holds topologies/, and its blocks run in order.

- In a ```sh block, every line that starts with a program of PROGRAMS is run and must succeed. A block with a line that
  starts with .venv/bin/python is skipped where that Python cannot import PyTorch (scripts/setup --python).
- A block whose first line is a comment that names a file in tutorial/, such as `# tutorial/star.toml`, is saved there.
- A block that cannot run here, because it downloads, builds or needs a second machine, starts with ```shell instead: it
  looks the same to a reader.

A block that quotes a file names it after the language, as in ```cpp actors/port/port.hpp. Its lines must appear in that file
consecutively, at any indentation.

Lines of a ```text block that are indented like those of `troupe check` must be lines that the document's `check` commands
have printed before.

The index, docs/README.md, must link to every page of docs/."""

import functools
import os
import pathlib
import re
import shlex
import subprocess
import sys
import textwrap

from troupe_command import BINARY, SOURCE, main, thorough

ENVIRONMENT = ".venv/bin/python"
TORCH = pathlib.Path(os.environ.get("TROUPE_TORCH_ROOT", SOURCE / ".venv/lib/python3/site-packages/torch"))
PROGRAMS = {"troupe": BINARY, "build/troupe": BINARY, "cmp": "cmp", "python3": sys.executable,
            ENVIRONMENT: str(TORCH.parents[3] / "bin/python")}


def blocks(text):
    """Returns the language and the content of each fenced block that does not quote a file."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def commands(block):
    for line in block.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words and words[0] in PROGRAMS:
            yield words


def saved_as(block):
    """Returns the file that a block is to be saved as, or None."""
    named = re.match(r"# (tutorial/[\w.]+)\n", block)
    return named and named[1]


def runs_something(text):
    return any(language == "sh" and any(commands(block)) for language, block in blocks(text))


def quotes(text):
    return re.findall(r"^```\w+ (\S+)\n(.*?)\n```$", text, re.MULTILINE | re.DOTALL)


@functools.cache
def environment_has_torch():
    try:
        return subprocess.run([PROGRAMS[ENVIRONMENT], "-c", "import torch, safetensors.torch"], capture_output=True,
                              check=False).returncode == 0
    except OSError:
        return False


def run_document(document):
    plans = []  # the lines that check has printed

    def run(words):
        done = subprocess.run([PROGRAMS[words[0]], *words[1:]], capture_output=True, text=True, timeout=250,
                              stdin=subprocess.DEVNULL, check=False)
        assert done.returncode == 0, f"{document.name}: {shlex.join(words)}\n{done.stdout}{done.stderr}"
        print("  ", document.name, ":", shlex.join(words))
        if words[1:2] == ["check"]:
            plans.extend(done.stdout.splitlines())

    def test():
        plans.clear()
        os.symlink(SOURCE / "topologies", "topologies")
        for language, block in blocks(document.read_text()):
            if path := saved_as(block):
                pathlib.Path(path).parent.mkdir(exist_ok=True)
                pathlib.Path(path).write_text(block)
            elif language == "sh":
                lines = list(commands(block))
                if any(words[0] == ENVIRONMENT for words in lines) and not environment_has_torch():
                    print("  ", document.name, f": SKIPPED, {PROGRAMS[ENVIRONMENT]} cannot import PyTorch:\n{block}")
                    continue
                for words in lines:
                    run(words)
            elif language == "text" and plans:
                shown = [line for line in block.splitlines() if line.startswith("  ") and line.strip() != "…"]
                for line in shown:
                    assert line in plans, f"{document.name} shows a line that check does not print: {line}"
    return test


def check_quotes(document):
    def test():
        for path, quoted in quotes(document.read_text()):
            lines = (SOURCE / path).read_text().splitlines()
            wanted = quoted.splitlines()
            found = any(textwrap.dedent("\n".join(lines[i:i + len(wanted)])) == "\n".join(wanted)
                        for i in range(len(lines)))
            assert found, f"{document.name} quotes lines that are not in {path}:\n{quoted}"
    return test


documents = [*sorted(SOURCE.glob("*.md")), *sorted((SOURCE / "docs").rglob("*.md"))]
SAMPLED = {"README.md"}  # what a newcomer runs first
main({f"test_{path.relative_to(SOURCE)}": run_document(path) if path.name in SAMPLED else thorough(run_document(path))
      for path in documents
      if runs_something(path.read_text())}
     | {f"test_quotes of {path.relative_to(SOURCE)}": check_quotes(path) for path in documents
        if quotes(path.read_text())})
