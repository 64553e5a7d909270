"""Completion in real shells: bash and zsh at a pseudo-terminal, where a tab is pressed, and fish, which completes on
request. A shell that is not installed is skipped. Also what the command prints at a terminal."""

import fcntl
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import time
import unicodedata

from troupe_command import BINARY, TINY, main, troupe, write

PROMPT = "ready>"


class terminal:
    """An interactive shell."""
    def __init__(self, *words):
        environment = {"TERM": "dumb", "PATH": f"{pathlib.Path('bin').absolute()}:{os.environ['PATH']}",
                       "HOME": os.getcwd(), "PS1": PROMPT, "LC_ALL": "C.UTF-8"}
        self.process, self.file = pty.fork()
        if self.process == 0:
            os.execvpe(words[0], words, environment)
        self.seen = ""

    def type(self, text):
        os.write(self.file, text.encode())

    def wait_for(self, pattern):
        """Returns what the shell has printed up to `pattern` since the last time."""
        deadline = time.monotonic() + 60
        while not (found := re.search(pattern, self.seen)):
            left = deadline - time.monotonic()
            assert left > 0 and select.select([self.file], [], [], left)[0], f"no {pattern!r} in {self.seen!r}"
            self.seen += os.read(self.file, 65536).decode(errors="replace")
        before, self.seen = self.seen[:found.end()], self.seen[found.end():]
        return before

    def command(self, text):
        self.type(text + "\n")
        self.wait_for("\n" + PROMPT)

    def close(self):
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        os.close(self.file)


def prepare(shell):
    """Puts the command on the path, and files to complete into the folder."""
    pathlib.Path("bin").mkdir()
    os.symlink(BINARY, "bin/troupe")
    pathlib.Path("script").write_text(troupe("completions", shell).stdout)
    for name in ("wiring.toml", "weights.safetensors", "readme.txt"):
        pathlib.Path(name).touch()
    pathlib.Path("wonders").mkdir()


# What is typed before the tab, and what it becomes.
UNIQUE = {"troupe simu": "troupe simulate ",
          "troupe data f": "troupe data fetch ",
          "troupe run --overw": "troupe run --overwrite ",
          "troupe run wir": "troupe run wiring.toml ",
          "troupe run --out won": "troupe run --out wonders/",
          "troupe run --set exchange.ki": "troupe run --set exchange.kind=",
          "troupe run --set exchange.kind=gos": "troupe run --set exchange.kind=gossip ",
          "troupe check w.toml --set run.bud": "troupe check w.toml --set run.budget=",
          "troupe eval --model mat": "troupe eval --model matrix_completion ",
          "troupe eval wei": "troupe eval weights.safetensors ",
          "troupe explain run.verify": "troupe explain run.verify_every ",
          "troupe list opt": "troupe list optimizers ",
          "troupe simulate --compute n": "troupe simulate --compute none ",
          "troupe data fetch fas": "troupe data fetch fashion_mnist ",
          "troupe completions z": "troupe completions zsh "}


def complete_all(shell, clear):
    for before, after in UNIQUE.items():
        shell.type(before + "\t")
        shell.wait_for(re.escape(before) + r"[\s\x07\x08]*" + re.escape(after[len(before):]))
        shell.type(clear)
        shell.wait_for(PROMPT)
    print("  ", len(UNIQUE), "completions")


def test_bash_completes_commands_options_files_and_settings():
    if not shutil.which("bash"):
        return print("   SKIPPED: bash is not installed")
    prepare("bash")
    shell = terminal("bash", "--norc", "--noprofile", "-i")
    shell.wait_for(PROMPT)
    shell.command("bind 'set bell-style none'; bind 'set enable-bracketed-paste off'; source ./script")
    complete_all(shell, "\x15\n")
    shell.type("troupe \t\t")
    listed = shell.wait_for(r"(?s)simulate.*" + PROMPT)
    assert all(word in listed for word in ("run", "explain-run", "man")), listed
    shell.close()
    return None


def test_zsh_completes_the_same():
    if not shutil.which("zsh"):
        return print("   SKIPPED: zsh is not installed")
    prepare("zsh")
    pathlib.Path(".zshrc").write_text(
        f"unsetopt zle_bracketed_paste prompt_sp; PS1='{PROMPT}'\nautoload -U compinit; compinit -u -D\n"
        "unsetopt beep list_beep auto_list; setopt no_always_last_prompt\nsource ./script\n")
    shell = terminal("zsh", "-i")
    shell.wait_for(PROMPT)
    complete_all(shell, "\x15\n")
    shell.close()
    return None


def test_fish_completes_the_same():
    if not shutil.which("fish"):
        return print("   SKIPPED: fish is not installed")
    prepare("fish")
    for before, after in UNIQUE.items():
        done = subprocess.run(["fish", "--no-config", "-c", 'source script; complete -C "$argv[1]"', before],
                              capture_output=True, text=True, timeout=60, check=True,
                              env={**os.environ, "HOME": os.getcwd()})
        offered = [line.split("\t")[0] for line in done.stdout.splitlines()]
        wanted = after.split(" ")[-1] or after.split(" ")[-2]
        assert wanted in offered, (before, wanted, offered, done.stderr)
    print("  ", len(UNIQUE), "completions")
    return None


def printed_at_a_terminal(columns, *arguments, **environment):
    """Returns what a command prints at a terminal of this width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen([BINARY, *arguments], stdin=theirs, stdout=theirs, stderr=theirs,
                               env={**os.environ, "TERM": "xterm", **environment})
    os.close(theirs)
    text = b""
    while True:
        try:
            read = os.read(ours, 65536)
        except OSError:  # the other side is closed
            break
        if not read:
            break
        text += read
    assert process.wait(60) == 0, text
    os.close(ours)
    return text.decode()


def test_what_is_printed_follows_the_width_and_no_color():
    tiny = write("tiny.toml", TINY)
    for arguments in (["explain", "run"], ["explain"], ["list", "models"], ["check", tiny]):
        for columns in (60, 90):
            for line in printed_at_a_terminal(columns, *arguments).splitlines():
                shown = [c for c in line if not unicodedata.combining(c)]
                assert len(shown) <= columns, (arguments, columns, line)
    troupe("run", tiny, "--out", "out")
    assert "\x1b[32m" in printed_at_a_terminal(100, "explain-run", "out", NO_COLOR="")
    assert "\x1b[" not in printed_at_a_terminal(100, "explain-run", "out", NO_COLOR="1")
    live = printed_at_a_terminal(100, "run", tiny, "--out", "again", NO_COLOR="")
    plain = printed_at_a_terminal(100, "run", tiny, "--out", "plain", NO_COLOR="1")
    assert "\x1b[36m" in live and "\x1b[36m" not in plain and "━" in plain, (live, plain)


def test_every_command_and_option_of_the_help_is_in_each_script():
    scripts = {shell: troupe("completions", shell).stdout for shell in ("bash", "zsh", "fish")}
    commands = re.findall(r"^  ([\w-]+) {2,}", troupe("--help").stdout.split("Subcommands:")[1], re.MULTILINE)
    assert "run" in commands and "completions" in commands, commands
    for command in commands:
        options = re.findall(r"--([\w-]+)", troupe(command, "--help").stdout.split("Options:")[1])
        for shell, text in scripts.items():
            assert re.search(rf"\b{command}\b", text), (shell, command)
            for option in options:
                assert f"--{option}" in text or f"-l {option}" in text, (shell, command, option)
    assert "--port" not in scripts["bash"], "hidden options"


main(globals())
