"""The programs of docs/studies/ run and write what their pages show."""

import pathlib
import re
import subprocess
import sys

from troupe_command import SOURCE, main

PAGES = sorted(page for page in pathlib.Path(SOURCE, "docs/studies").glob("*.md") if page.name != "README.md")


def run(program, out):
    done = subprocess.run([sys.executable, SOURCE / program, "--small", "--out", out], capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_study_writes_what_its_page_shows():
    assert len(PAGES) == 5, PAGES
    for page in PAGES:
        programs = re.findall(r"^```sh\n(bench/studies/\w+\.py)\n```$", page.read_text(), re.MULTILINE)
        assert programs == [f"bench/studies/{page.stem}.py"], (page, programs)
        assert "| --- |" in run(programs[0], "first"), page
        for ending in ("svg", "csv"):
            assert pathlib.Path("first", f"{page.stem}.{ending}").stat().st_size > 0, page
            assert page.with_suffix(f".{ending}").exists(), page
        assert f"({page.stem}.svg)" in page.read_text(), page


def test_a_study_gives_the_same_numbers_twice():
    tables = {run("bench/studies/staleness.py", out) for out in ("first", "second")}
    assert len(tables) == 1
    for name in ("staleness.svg", "staleness.csv"):
        assert pathlib.Path("first", name).read_bytes() == pathlib.Path("second", name).read_bytes(), name


main(globals())
