"""The files of deploy/, checked by the tools that read them, as far as this machine has them."""

import os
import pathlib
import shutil
import subprocess
import sys

from troupe_command import BINARY, SOURCE, main

DEPLOY = SOURCE / "deploy"
IMAGE = (DEPLOY / "Containerfile").read_text().replace("\\\n", " ")


def skipped(reason):
    print(f"SKIPPED: {reason}", flush=True)


def run(*words):
    return subprocess.run([*map(str, words)], capture_output=True, text=True, check=False)


def test_the_slurm_script_is_well_formed():
    done = run("bash", "-n", DEPLOY / "slurm.sh")
    assert done.returncode == 0, done.stderr


def test_the_systemd_unit_is_well_formed():
    if not shutil.which("systemd-analyze"):
        return skipped("there is no command systemd-analyze")
    unit = pathlib.Path("troupe-node@.service")
    unit.write_text((DEPLOY / unit).read_text().replace("=troupe node", f"={os.path.abspath(BINARY)} node"))
    done = run("systemd-analyze", "verify", unit)
    assert "troupe-node" not in done.stderr, done.stderr


def test_the_kubernetes_manifest_fits_its_schema():
    try:
        import kubernetes_validate
        import yaml
    except ImportError:
        return skipped(f"{sys.executable} has no module kubernetes_validate (scripts/setup --python)")
    resources = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
    assert [resource["kind"] for resource in resources] == ["Service", "Job"]
    for resource in resources:
        kubernetes_validate.validate(resource, kubernetes_validate.latest_version(), strict=True)
    service, job = (resource["spec"] for resource in resources)
    pod = job["template"]["spec"]
    assert pod["subdomain"] == resources[0]["metadata"]["name"]  # the names of the pods are known by it
    assert service["ports"][0]["port"] == pod["containers"][0]["ports"][0]["containerPort"]
    volumes = {volume["name"] for volume in pod["volumes"]}
    mounted = {mount["name"] for one in [*pod["containers"], *pod["initContainers"]] for mount in one["volumeMounts"]}
    assert mounted == volumes


def instructions(word):
    return [line.split()[1:] for line in IMAGE.splitlines() if line.startswith(word + " ")]


def test_the_container_file_copies_what_exists():
    copied = [words for words in instructions("COPY") if not words[0].startswith("--from=")]
    assert copied
    for *sources, _ in copied:
        for source in sources:
            assert (SOURCE / source).exists(), source
    stages = {words[-1] for words in instructions("FROM") if "AS" in words}
    assert {words[0].split("=")[1] for words in instructions("COPY") if words[0].startswith("--from=")} == stages
    if shutil.which("hadolint"):
        # DL3008: packages of a Debian release keep their version, but for security updates, which are wanted.
        done = run("hadolint", "--ignore", "DL3008", DEPLOY / "Containerfile")
        assert done.returncode == 0, done.stdout
    else:
        skipped("there is no command hadolint")


main(globals())
