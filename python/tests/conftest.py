"""A database for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import terrace


@pytest.fixture
def db(tmp_path: Path) -> Iterator[terrace.Database]:
    with terrace.open(tmp_path / "db", memory="16MiB") as opened:
        yield opened
