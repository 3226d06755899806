"""The package itself: its examples, its types, its error classes."""

import doctest
import importlib.util
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import terrace
from terrace import _errors, _terrace

ROOT = Path(__file__).parent.parent


def test_the_example_runs():
    out = subprocess.check_output([sys.executable, ROOT / "examples" / "tour.py"], text=True)
    assert "alice came 3 times" in out and "refused" in out
    assert "guest number 1" in out and "in the snapshot: False" in out


def test_the_doctests_run():
    assert doctest.testmod(terrace).failed == 0


def test_every_error_of_the_engine_has_a_class():
    # The kinds as the engine's source has them.
    source = (ROOT.parent / "crates" / "engine" / "terrace-base" / "src" / "error.rs").read_text()
    body = source.split("pub fn kind(&self)", 1)[1].split("\n    }\n", 1)[0]
    kinds = {line.split('"')[1] for line in body.splitlines() if "=>" in line}
    assert len(kinds) >= 12
    assert kinds <= set(_errors.BY_KIND), kinds - set(_errors.BY_KIND)
    for kind, error in _errors.BY_KIND.items():
        assert issubclass(error, terrace.Error) and error.kind == kind
        assert getattr(terrace, error.__name__) is error


def test_what_is_public_is_listed_and_documented():
    for name in terrace.__all__:
        assert getattr(terrace, name) is not None
    stub = (ROOT / "terrace" / "_terrace.pyi").read_text()
    for cls in (_terrace.Map, _terrace.Ordered, _terrace.Table, _terrace.Index, _terrace.Batch, _terrace.Database):
        for name, member in vars(cls).items():
            if not name.startswith("_") and (callable(member) or inspect.isdatadescriptor(member)):
                assert f"def {name}(" in stub, f"{cls.__name__}.{name} is not in the stub"


def test_the_import_loads_little():
    # Each of these takes longer than all of the package: it is to be imported within 20 ms.
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); before = set(sys.modules); import terrace; "
        "print(*sorted(set(sys.modules) - before))"
    )
    out = subprocess.check_output([sys.executable, "-S", "-c", code, ROOT], text=True)
    loaded = {name.split(".")[0] for name in out.split()}
    assert "terrace" in loaded
    heavy = {"typing", "re", "collections", "functools", "threading", "enum", "json", "asyncio", "contextlib", "shelve"}
    assert not loaded & heavy, loaded & heavy
    assert loaded - set(sys.stdlib_module_names) == {"terrace"}
    assert terrace.json is terrace._codecs.json and "Codec" in dir(terrace)
    with pytest.raises(AttributeError, match="nothing"):
        terrace.nothing


@pytest.mark.parametrize("checker", ["mypy", "mypy.stubtest", "pyright"])
def test_types_are_accepted(checker):
    module = checker.split(".")[0]
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed")
    command = [sys.executable, "-m", checker]
    if checker == "mypy.stubtest":
        command += ["terrace._terrace", "--ignore-missing-stub", "--allowlist", "tests/stubtest.allow"]
    if checker == "pyright":
        command += ["--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
