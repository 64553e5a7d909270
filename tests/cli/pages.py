"""The page about a run and its report in a real browser: no console error, curves and wiring present and changing.

With --pictures DIR, screenshots of all pages are written there.
"""

import csv
import io
import os
import pathlib
import sys
import xml.etree.ElementTree

from browser import CHROMIUM, Browser
from dashboard import ENDLESS, Watched
from troupe_command import SOURCE, main, skip, troupe, write

ANY = "--dashboard=127.0.0.1:0"
PICTURES = pathlib.Path(sys.argv[sys.argv.index("--pictures") + 1]).absolute() if "--pictures" in sys.argv else None
POINTS = "document.querySelector('[data-figure=loss] [data-points]')?.getAttribute('points') ?? ''"
# Bars of the drawing, which is in a shadow tree.
BARS = "document.querySelector('#wiring .drawing')?.shadowRoot.querySelectorAll('.share').length ?? 0"
TOO_WIDE = "document.documentElement.scrollWidth > document.documentElement.clientWidth"

# Presses every button that saves a figure, and keeps the texts instead of saving them, by the name of the file.
SAVE_ALL = """(async () => {
  const saved = {}, made = new Map();
  URL.createObjectURL = blob => { const url = `data:,${made.size}`; made.set(url, blob); return url; };
  HTMLAnchorElement.prototype.click = function () { saved[this.download] = made.get(this.href); };
  const buttons = [...document.querySelectorAll('[data-save]')].filter(each => each.getClientRects().length > 0);
  buttons.forEach(each => each.click());
  while (Object.keys(saved).length < buttons.length) await new Promise(done => setTimeout(done, 20));
  for (const [name, blob] of Object.entries(saved)) saved[name] = await blob.text();
  return saved;
})()"""
EDGES = "document.querySelector('#wiring .drawing').shadowRoot.querySelectorAll('.edge[aria-label*=messages]').length"

if CHROMIUM is None:
    skip("there is no Chromium")


def look(page, name):
    """Looks at a page at the widths of a desk and of a telephone, in light and dark."""
    for width, dark in ((1280, False), (1280, True), (390, False), (390, True)):
        page.resize(width, 900, dark)
        assert not page.run(TOO_WIDE), f"{name} is wider than {width} pixels"
        if PICTURES:
            page.screenshot(PICTURES / f"{name}-{width}{'-dark' if dark else ''}.png")
    page.resize(1280)


def choose(page, control, value):
    """Chooses an option as a reader does who uses the keyboard: the control takes the focus and changes."""
    page.run(f"""(() => {{ const control = document.querySelector('{control}'); control.focus();
        if (control.type === 'checkbox') control.checked = {str(bool(value)).lower()}; else control.value = '{value}';
        control.dispatchEvent(new Event('change', {{bubbles: true}})); }})()""")


def name_of_x(figure):
    return (f"[...document.querySelectorAll('[data-figure={figure}] .axis:not(.other) .name')]"
            ".map(each => each.textContent).join('; ')")


def choose_axes(page):
    """Every choice of axes moves the curves, keeps them inside the figure, and can be taken back."""
    def places():
        return tuple(float(number) for pair in page.run(POINTS).split() for number in pair.split(","))

    own, seen = places(), set()
    for value, name in (("epochs", "epochs"), ("steps", "steps"), ("samples", "training samples"),
                        ("bytes_sent", "sent by all workers and servers")):
        choose(page, "[data-chooses=x]", value)
        assert name in page.run(name_of_x("loss")), page.run(name_of_x("loss"))
        assert page.run("document.activeElement.dataset.chooses") == "x"
        seen.add(places())
    choose(page, "[data-chooses=y]", True)
    assert page.run(name_of_x("loss")).endswith("loss, log"), page.run(name_of_x("loss"))
    assert "log" not in page.run(name_of_x("accuracy"))
    seen.add(places())
    assert all(0 <= number <= 420 for each in seen for number in each), seen
    choose(page, "[data-chooses=y]", False)
    choose(page, "[data-chooses=x]", "seconds")
    assert places() == own and len(seen) >= 2, (own, seen)


def save_all(page, least):
    """Saves every figure as SVG and as CSV."""
    saved = page.run(SAVE_ALL)
    stems = {name.rpartition(".")[0] for name in saved}
    assert len(stems) >= least and {f"{stem}.{kind}" for stem in stems for kind in ("svg", "csv")} == set(saved), saved.keys()
    for name, text in saved.items():
        if name.endswith(".svg"):
            assert xml.etree.ElementTree.fromstring(text).tag.endswith("svg"), name
        else:
            rows = list(csv.reader(io.StringIO(text)))
            assert len(rows) > 1 and len({len(row) for row in rows}) == 1, (name, text[:200])


def watch(file, *more, curves=2):
    with Watched(file, "--out", "out", ANY, *more) as run, Browser() as page:
        page.open(run.url)
        before = page.wait(POINTS, 60)
        page.wait(f"{POINTS} !== {before!r}", 60)
        page.wait(f"{BARS} > 0", 60)
        page.wait(f"{EDGES} > 0", 60)
        assert page.run("document.querySelectorAll('.figure').length") >= curves
        look(page, pathlib.Path(file).stem)
        save_all(page, curves + 1)
        choose(page, "[data-chooses=x]", "steps")
        before = page.run(POINTS)
        page.wait(f"{POINTS} !== {before!r}", 60)
        assert "steps" in page.run(name_of_x("loss")), "a choice outlives an update"
        assert page.run("document.activeElement.dataset.chooses") == "x", "so does the focus"
        choose(page, "[data-chooses=x]", "seconds")
        run.process.send_signal(2)
        page.wait("document.querySelector('.badge').textContent === 'interrupted'")
        run.process.communicate(timeout=60)
        page.open(pathlib.Path("out/report.html").absolute().as_uri())
        assert page.run(f"{BARS} > 0") and page.run(POINTS)
        look(page, pathlib.Path(file).stem + "-report")
        save_all(page, curves + 1)
        choose_axes(page)
        choose(page, "[data-chooses=x]", "epochs")
        look(page, pathlib.Path(file).stem + "-report-epochs")
        assert not page.problems, page.problems


def test_synchronous_wiring():
    watch(write("two_workers.toml", ENDLESS))


for name in ("ring_all_reduce", "dpsgd_ring", "asgd"):
    def test(name=name):
        watch(SOURCE / "topologies" / f"{name}.toml", "--set", "data.name=digits", "--set", "data.batch_size=16", "--set",
              "run.epochs=2000", "--set", 'evaluate.every="10 steps"', curves=3)
    globals()[f"test_{name}"] = test


def test_a_slow_network():
    watch(write("slow_network.toml", ENDLESS.replace("count = 2", "count = 4\nslowdown = [1, 1, 1, 3]")
                + '[[link]]\nat = "*"\nbandwidth = "50Mbit/s"\n'), curves=3)


def test_a_name_in_a_legend_hides_its_curve_also_after_an_update():
    with Watched(write("two_workers.toml", ENDLESS), "--out", "out", ANY) as run, Browser() as page:
        page.open(run.url)
        before = page.wait(POINTS, 60)
        page.run("document.querySelector('.key').dispatchEvent(new MouseEvent('click', {bubbles: true}))")
        hidden = "document.querySelector('[data-figure=loss] g[data-series]').classList.contains('away')"
        assert page.run(hidden)
        page.wait(f"{POINTS} !== {before!r}", 60)
        assert page.run(hidden)
        assert not page.problems, page.problems
        run.end()


def test_comparison():
    file = write("two.toml", ENDLESS)
    troupe("compare", file, "--vary", "workers.count=1,2", "--set", "run.steps=40", "--target", "0.1", "--out", "out")
    with Browser() as page:
        page.open(pathlib.Path("out/compare.html").absolute().as_uri())
        choose(page, "#logarithmic", True)
        choose(page, "#horizontal", "logarithmic")
        logs = "[...document.querySelectorAll('.form:not([hidden])')].every(form => form.dataset.x === 'logarithmic')"
        assert page.run(logs) and page.run("document.querySelectorAll('.form:not([hidden])').length") == 10
        page.run("document.querySelector('#results button').click()")
        look(page, "compare")
        choose(page, "#logarithmic", False)
        choose(page, "#horizontal", "")
        assert not page.run(logs)
        assert not page.run("(box => box.scrollWidth > box.clientWidth)(document.querySelector('#results').parentNode)"), \
            "a column of the results is cut off"
        save_all(page, 8)
        assert not page.problems, page.problems


os.environ.setdefault("HOME", "/tmp")
main(globals())
