"""The manual: a page for each command, with every option, that mandoc and groff accept without a word."""

import pathlib
import re
import shutil
import subprocess

from troupe_command import main, troupe


def commands():
    return re.findall(r"^  ([\w-]+) {2,}", troupe("--help").stdout.split("Subcommands:")[1], re.MULTILINE)


def plain(page):
    """Returns a page without its escapes."""
    return page.replace("\\-", "-").replace("\\fB", "").replace("\\fI", "").replace("\\fR", "").replace("\\e", "\\")


def test_every_command_has_a_page_with_its_options():
    troupe("man", "--dir", "man")
    top = plain(pathlib.Path("man/man1/troupe.1").read_text())
    assert plain(troupe("man").stdout) == top
    for command in commands():
        page = plain(pathlib.Path(f"man/man1/troupe-{command}.1").read_text())
        assert page.startswith(f".TH TROUPE-{command.upper()} 1"), page[:80]
        assert f"\n{command}\n" in top or f"troupe-{command}(1)" in top, command
        described = troupe(command, "--help").stdout
        for option in re.findall(r"^  (?:-\w,)?--([\w-]+)", described, re.MULTILINE):
            assert f"--{option}" in page, (command, option)
    assert ".SH SYNOPSIS\ntroupe data fetch" in plain(troupe("man", "data", "fetch").stdout)


def test_the_page_of_the_topology_file_has_every_key():
    page = plain(troupe("man", "topology").stdout)
    for line in troupe("explain").stdout.splitlines():
        key = line.split()[0].split(".")[-1]
        assert f"\n{key}\n" in page, key


def test_an_unknown_page_is_refused():
    said = troupe("man", "runn", status=2).stderr
    assert 'unknown page "runn"' in said and 'did you mean "run"' in said.replace("run?", 'run"?'), said


def test_linters_find_nothing():
    troupe("man", "--dir", "man")
    pages = sorted(pathlib.Path("man").glob("man*/*"))
    assert len(pages) > len(commands()), pages
    linters = {"mandoc": ["-Tlint", "-Wwarning"], "groff": ["-ww", "-z", "-man", "-Tutf8"]}
    for linter, options in linters.items():
        if not shutil.which(linter):
            print(f"   SKIPPED: {linter} is not installed")
            continue
        for page in pages:
            done = subprocess.run([linter, *options, page], capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 0 and not done.stdout + done.stderr, f"{linter} {page}:\n{done.stdout}{done.stderr}"
        print("  ", linter, "accepts", len(pages), "pages")


main(globals())
