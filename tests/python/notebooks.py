"""The notebooks run, and the interrupt of a notebook ends a run in good order."""

import importlib.util
import os
import pathlib
import queue
import time

from package import ENVIRONMENT, LONG, processes_of, trains, wait_for
from troupe_command import SOURCE, main, skip, thorough, write

for needed in ("nbclient", "ipykernel"):
    if importlib.util.find_spec(needed) is None:
        skip(f"{needed} is not installed in this Python")

import jupyter_client
import nbclient
import nbformat

os.environ.update(ENVIRONMENT)
NOTEBOOKS = SOURCE / "examples" / "notebooks"


def executed(name):
    """Executes a notebook in the current folder, and returns what its cells have shown."""
    book = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in book.cells), "outputs are not stripped"
    begin = time.monotonic()
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3", resources={"metadata": {"path": os.getcwd()}}).execute()
    print(f"  {name}: {time.monotonic() - begin:.0f} s")
    return [output for cell in book.cells for output in cell.get("outputs", [])]


def shown(outputs, kind):
    return [output["data"][kind] for output in outputs if kind in output.get("data", {})]


@thorough
def test_five_wirings():
    outputs = executed("five_wirings")
    printed = "".join(output.get("text", "") for output in outputs)
    assert "Fastest to 95 %" in printed and "points are right" in printed, printed
    assert float(printed.split("% of 1000 points")[0].split()[-1]) > 95, printed
    assert len(shown(outputs, "image/svg+xml")) == 2
    assert any("<iframe sandbox" in text for text in shown(outputs, "text/html"))


@thorough
def test_links_decide():
    outputs = executed("links_decide")
    printed = "".join(output.get("text", "") for output in outputs)
    for line in ("fastest at 1Gbit/s: dpsgd_ring", "fastest at 1Mbit/s: model_averaging"):
        assert line in printed, printed
    seconds = {line.split()[0]: [float(word) for word in line.split()[1:5]] for line in printed.splitlines()[1:5]}
    star, ring = seconds["star"], seconds["ring_all_reduce"]
    assert star[3] < ring[3] and star[1] > 2 * ring[1], printed  # as the text says
    assert len(shown(outputs, "image/svg+xml")) == 3


def test_the_interrupt_of_a_notebook_ends_the_run_in_good_order():
    manager, client = jupyter_client.manager.start_new_kernel(kernel_name="python3", cwd=os.getcwd())
    try:
        client.execute(f"import troupe_train as tt\nrun = tt.run({write('long.toml', LONG)!r}, out='out')\n"
                       "print('status', run.status, run.records[-1]['status'])")
        wait_for(lambda: trains("out"))
        manager.interrupt_kernel()
        messages = said(client)
        printed = "".join(content.get("text", "") for kind, content in messages if kind == "stream")
        updates = [content for kind, content in messages if kind == "update_display_data"]
        errors = [content["evalue"] for kind, content in messages if kind == "error"]
        assert not errors, errors
        assert "status 130 interrupted" in printed and updates, messages
        assert "samples/s" in updates[-1]["data"]["text/plain"], updates[-1]
        assert pathlib.Path("out/model.safetensors").is_file() and not processes_of("out")
        client.execute("run.metrics.tail(2) if hasattr(run.metrics, 'tail') else run.metrics")
        assert any("text/html" in content.get("data", {}) for _, content in said(client)), "the kernel goes on"

        client.execute("run = tt.start('long.toml', out='again')\nnext(iter(run))")
        said(client)
        assert processes_of("again")
    finally:
        manager.shutdown_kernel(now=True)  # as the button "restart" does, and SIGKILL
        client.stop_channels()
    wait_for(lambda: not processes_of("again"), 10)


def said(client):
    """Returns what a cell has sent until the kernel is idle."""
    messages = []
    while True:
        try:
            message = client.get_iopub_msg(timeout=30)
        except queue.Empty:
            raise AssertionError(f"the kernel is still busy: {messages}") from None
        messages.append((message["msg_type"], message["content"]))
        if messages[-1] == ("status", {"execution_state": "idle"}) and any(kind == "execute_input" for kind, _ in messages):
            return messages


main(globals())
