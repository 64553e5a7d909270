"""The real Prometheus scrapes a run: the target is up, and the series have samples. Debian's package is prometheus."""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request

from dashboard import ENDLESS, Watched
from troupe_command import SOURCE, main, skip, write

PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")
if not PROMETHEUS or not PROMTOOL:
    skip("there is no prometheus or no promtool")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


def query(port, expression):
    """The values of an instant query."""
    url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return [float(one["value"][1]) for one in json.load(answer)["data"]["result"]]
    except OSError:
        return []


def wait_for(port, expression, seconds=60):
    until = time.monotonic() + seconds
    while not (found := query(port, expression)):
        assert time.monotonic() < until, expression
        time.sleep(0.2)
    return found


def test_promtool_finds_no_fault_with_the_metrics():
    with Watched(write("run.toml", ENDLESS), "--out", "out", "--dashboard=127.0.0.1:0") as run:
        run.wait(lambda state: state["val_accuracy"] is not None)
        done = subprocess.run([PROMTOOL, "check", "metrics"], input=run.get("metrics"), capture_output=True, text=True,
                              timeout=60, check=False)
        assert done.returncode == 0 and not done.stdout + done.stderr, done.stdout + done.stderr
        run.end()


def test_prometheus_scrapes_a_run_with_a_token_and_the_dashboard_uses_what_it_finds():
    with Watched(write("run.toml", ENDLESS), "--out", "out", "--dashboard=0.0.0.0:0") as run:
        run.url = run.url.replace("0.0.0.0", "127.0.0.1")
        target, token = run.url.removeprefix("http://").split("/?token=")
        port = free_port()
        write("token", token)
        write("prometheus.yml", f"""
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: troupe
    authorization: {{credentials_file: token}}
    static_configs: [{{targets: ["{target}"]}}]
""")
        server = subprocess.Popen([PROMETHEUS, "--config.file=prometheus.yml", "--storage.tsdb.path=store",
                                   f"--web.listen-address=127.0.0.1:{port}"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for(port, 'up{job="troupe"} == 1')
            wait_for(port, 'rate(troupe_steps_total[10s]) > 0')
            assert len(wait_for(port, "troupe_worker_steps_total")) == 2
            board = json.loads(pathlib.Path(SOURCE, "deploy/grafana/troupe.json").read_text())
            for panel in board["panels"]:
                for one in panel.get("targets", []):
                    if any(word in one["expr"] for word in ("staleness", "consensus", "troupe_link_")):
                        continue  # this wiring has none of them
                    expression = one["expr"].replace("$__rate_interval", "10s").replace('instance=~"$instance"', "")
                    wait_for(port, expression)
        finally:
            server.kill()
            server.wait()
        run.end()


os.environ.setdefault("HOME", "/tmp")
main(globals())
