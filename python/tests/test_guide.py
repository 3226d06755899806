"""The Python programs of the guide are run as they stand there, each by itself in an empty folder."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
GUIDE = ROOT.parent / "docs" / "guide"
PROGRAMS = [
    pytest.param(program, id=f"{page.relative_to(GUIDE)}-{number}")
    for page in sorted(GUIDE.rglob("*.md"))
    for number, program in enumerate(re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.M | re.S))
]


def run(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program]
    # The package lies beside the tests, or is installed.
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_of_the_guide_run(program: str, tmp_path: Path):
    for module in re.findall(r"^from (fastapi)\b", program, re.M):
        if find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    done = run(program, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_program_that_is_wrong_is_found(tmp_path: Path):
    assert len(PROGRAMS) >= 12
    assert run("import terrace\nterrace.open('x.db', memory='64MiB').bush('a')", tmp_path).returncode == 1
