"""The pictures of the documentation: each is well-formed, loads nothing, can be read on dark pages, and is shown by a
page. Wirings and time lines are what their program draws."""

import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as xml

from troupe_command import BINARY, SOURCE, main, troupe

DOCUMENTS = [*SOURCE.glob("*.md"), *(SOURCE / "docs").rglob("*.md")]
PICTURES = sorted((SOURCE / "docs").rglob("*.svg"))
NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)")
PLACES = re.compile(r'(?<= )(?:[xyr]|[xy][12]|[cr][xy]|d|points|width|height|viewBox|transform)="[^"]*"')


def test_every_drawing_is_well_formed_and_loads_nothing():
    assert len(PICTURES) > 10, PICTURES
    for path in PICTURES:
        text = path.read_text()
        root = xml.fromstring(text)
        assert root.tag == "{http://www.w3.org/2000/svg}svg" and root.get("viewBox"), path
        for element in root.iter():
            assert not element.tag.endswith(("}script", "}image", "}foreignObject", "}use")), (path, element.tag)
            for key, value in element.attrib.items():
                assert not key.endswith("href") and not key.startswith("on"), (path, key)
                assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)", value)), (path, value)
        assert not re.search(r"@import|@font-face", text), path
        assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)", text)), path


def test_every_drawing_can_be_read_on_dark_pages():
    for path in PICTURES:
        assert "prefers-color-scheme" in path.read_text() or path.stem.endswith("-dark"), path


def test_graphviz_reads_the_dot_text():
    if not shutil.which("dot"):
        return print("  SKIPPED: Graphviz is not installed")
    for name in ("all_reduce", "hierarchy", "sync_ps", "two_nodes"):
        troupe("graph", SOURCE / "topologies" / f"{name}.toml", "-o", "wiring.dot", "--overwrite")
        drawn = subprocess.run(["dot", "-Tsvg", "wiring.dot"], check=True, capture_output=True, text=True)
        assert not drawn.stderr and drawn.stdout.count('class="edge"') > 2, (name, drawn.stderr)


def test_every_picture_is_shown_by_a_page_and_is_there():
    shown = set()
    for document in DOCUMENTS:
        text = document.read_text()
        for target in re.findall(r'!\[[^\]]*\]\(([^)\s]+)\)|(?:src|srcset)="([^"]+)"', text):
            path = (document.parent / "".join(target)).resolve()
            assert path.is_file(), (document, target)
            shown.add(path)
    for path in PICTURES:
        assert path.resolve() in shown, f"no page shows {path}"


def is_same_drawing(kept, drawn):
    """Compares drawings. Positions and sizes may differ by a few units, because simulated times are rounded."""
    drawings = [re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL) for text in (kept, drawn)]
    one, other = ([NUMBER.split(value) for element in re.findall(r"<[^>]+>", text) for value in PLACES.findall(element)]
                  for text in drawings)
    return (PLACES.sub("", drawings[0]) == PLACES.sub("", drawings[1]) and len(one) == len(other)
            and all(a[::2] == b[::2] and all(abs(float(x) - float(y)) < 4 for x, y in zip(a[1::2], b[1::2], strict=True))
                    for a, b in zip(one, other, strict=True)))


def test_wirings_and_time_lines_are_what_their_program_draws():
    subprocess.run([sys.executable, SOURCE / "docs/pictures/wirings.py", BINARY, "--out", "drawn"], check=True, timeout=200)
    for folder in ("concepts", "timelines"):
        kept, drawn = SOURCE / "docs/pictures" / folder, pathlib.Path("drawn", folder)
        names = sorted(path.name for path in kept.glob("*.svg") if path.name != "parts.svg")  # which is drawn by hand
        assert sorted(path.name for path in drawn.iterdir()) == names, names
        for name in names:
            assert is_same_drawing((kept / name).read_text(), (drawn / name).read_text()), name


main(globals())
