"""The commands that the documents show are run: every line `troupe …` or `build/troupe …` of a ```sh block, in order,
in a fresh folder for each document, in which topologies/ stands. A block that cannot run here (it downloads, or
wants a second machine) is opened with ```shell instead: it looks the same to a reader.

A block that quotes a file names it behind the language, as in ```cpp actors/port.hpp; its lines must stand there, in a
row, whatever they are indented by."""

import os
import re
import shlex
import subprocess
import textwrap

from troupe_command import BINARY, SOURCE, main


def commands(text):
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words and words[0] in ("troupe", "build/troupe"):
                yield words[1:]


def quotes(text):
    return re.findall(r"^```\w+ (\S+)\n(.*?)\n```$", text, re.MULTILINE | re.DOTALL)


def run_document(document):
    def test():
        os.symlink(SOURCE / "topologies", "topologies")
        for words in commands(document.read_text()):
            done = subprocess.run([BINARY, *words], capture_output=True, text=True, timeout=250,
                                  stdin=subprocess.DEVNULL, check=False)
            assert done.returncode == 0, f"{document.name}: troupe {' '.join(words)}\n{done.stdout}{done.stderr}"
            print("  ", document.name, ": troupe", " ".join(words))
    return test


def check_quotes(document):
    def test():
        for path, quoted in quotes(document.read_text()):
            lines = (SOURCE / path).read_text().splitlines()
            wanted = quoted.splitlines()
            found = any(textwrap.dedent("\n".join(lines[i:i + len(wanted)])) == "\n".join(wanted)
                        for i in range(len(lines)))
            assert found, f"{document.name} quotes what does not stand in {path}:\n{quoted}"
    return test


documents = [*sorted(SOURCE.glob("*.md")), *sorted((SOURCE / "docs").rglob("*.md"))]
main({f"test_{path.relative_to(SOURCE)}": run_document(path) for path in documents
      if any(commands(path.read_text()))}
     | {f"test_quotes of {path.relative_to(SOURCE)}": check_quotes(path) for path in documents
        if quotes(path.read_text())})
