"""The JSON Schema of the topology file accepts every file of topologies/ and refuses files with mistakes. Needs the
Python package jsonschema."""

import importlib.util
import json
import tomllib

from troupe_command import SOURCE, TINY, main, skip, troupe, write


def validator():
    import jsonschema
    schema = json.loads(troupe("explain", "--schema").stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_every_file_of_the_catalogue_is_valid():
    check = validator()
    files = sorted((SOURCE / "topologies").rglob("*.toml")) + sorted((SOURCE / "tests").rglob("*.toml"))
    files = [file for file in files if "fuzz" not in file.parts]
    assert len(files) > 20, files
    for file in files:
        problems = [f"{'/'.join(map(str, one.path))}: {one.message}" for one in check.iter_errors(tomllib.loads(file.read_text()))]
        assert not problems, (file, problems)
    print("  ", len(files), "files")


def test_what_a_run_writes_is_valid():
    check = validator()
    troupe("run", write("tiny.toml", TINY), "--out", "out")
    with open("out/topology.toml", "rb") as file:
        check.validate(tomllib.load(file))


MISTAKES = {
    "unknown key": ("seed = 1", "sead = 1"),
    "unknown section": ("[run]", "[ran]"),
    "wrong type": ("seed = 1", 'seed = "one"'),
    "out of range": ("count = 2", "count = 0"),
    "excluded bound": ("lr = 0.05", "lr = 0.05\nmomentum = 1.0"),
    "unknown choice": ('name = "lenet"', 'name = "lenett"'),
    "unknown kind": ('kind = "all_reduce"', 'kind = "allreduce"'),
    "no kind": ('kind = "all_reduce"', 'every = 1'),
    "setting of another kind": ('kind = "all_reduce"', 'kind = "all_reduce"\nstaleness_bound = 4'),
    "choice of another kind": ('kind = "all_reduce"', 'kind = "elastic"\napply = "first"'),
    "duration": ("seed = 1", 'seed = 1\ntimeout = "60 parsecs"'),
    "rate": ("[run]", '[[link]]\nat = "*"\nbandwidth = "fast"\n[run]'),
    "fault without a kind": ("[run]", '[[fault]]\nat = "1s"\n[run]'),
    "interval": ('kind = "all_reduce"', 'kind = "all_reduce"\nevery = "4 moons"'),
    "no interval": ('kind = "all_reduce"', 'kind = "all_reduce"\nevery = 0'),
    "node without a name": ("[run]", "[[node]]\nworkers = 2\n[run]"),
    "later format": ("[run]", "format = 2\n[run]"),
}


def test_mistakes_are_refused_by_the_schema_as_by_the_command():
    check = validator()
    check.validate(tomllib.loads(TINY))
    for what, (right, wrong) in MISTAKES.items():
        text = TINY.lstrip().replace(right, wrong, 1)
        assert text != TINY.lstrip(), what
        assert not check.is_valid(tomllib.loads(text)), f"{what} is valid"
        troupe("check", write("wrong.toml", text), status=2)
    both = TINY.replace('kind = "all_reduce"', 'kind = "parameter_server"\napply = "first"\nfirst = 1')
    check.validate(tomllib.loads(both))


if importlib.util.find_spec("jsonschema") is None:
    skip("this Python does not have jsonschema (pip install jsonschema)")
main(globals())
