"""The standard library's own tests of dbm modules, and what they do not ask."""

import dbm
import os
import subprocess
import sys
import unittest

import pytest

import terrace
import terrace.dbm

test_dbm = pytest.importorskip("test.test_dbm", reason="this Python came without its own tests")


class TestTerraceDbm(test_dbm.AnyDBMTestCase, unittest.TestCase):
    module = terrace.dbm

    def setUp(self):
        self.addCleanup(setattr, dbm, "_defaultmod", dbm._defaultmod)
        self.addCleanup(setattr, dbm, "whichdb", dbm.whichdb)
        self.addCleanup(dbm._modules.pop, "terrace.dbm")
        dbm._defaultmod = terrace.dbm
        dbm._modules["terrace.dbm"] = terrace.dbm
        found = dbm.whichdb
        dbm.whichdb = lambda name: terrace.dbm.whichdb(getattr(name, "__fspath__", lambda: name)()) or found(name)
        test_dbm.setup_test_dir()
        self.addCleanup(test_dbm.cleaunup_test_dir)


def test_flags_are_kept(tmp_path):
    path = tmp_path / "d"
    with pytest.raises(terrace.dbm.error):
        terrace.dbm.open(path)
    with pytest.raises(terrace.dbm.error):
        terrace.dbm.open(path, "w")
    with pytest.raises(terrace.dbm.error):
        terrace.dbm.open(path, "x")
    with terrace.dbm.open(path, "c") as d:
        d["b"], d["a"] = "2", "1"
        assert d.keys() == [b"a", b"b"] and len(d) == 2 and d.firstkey() == b"a"
        assert d.nextkey("a") == b"b" and d.nextkey(b"b") is None
        d.sync()
        d.reorganize()
    with pytest.raises(terrace.dbm.error):
        d["a"]
    d.close()
    with terrace.dbm.open(os.fsencode(path), "r") as d:
        for write in (
            lambda: d.__setitem__("c", "3"),
            lambda: d.__delitem__("a"),
            lambda: d.setdefault("c", "3"),
            lambda: d.clear(),
        ):
            with pytest.raises(terrace.dbm.error):
                write()
        assert d.setdefault("a", "x") == b"1" and d.get("z", 5) == 5 and "a" in d
    with terrace.dbm.open(path, "n") as d:
        assert d.keys() == []
    assert terrace.dbm.whichdb(path) == "terrace.dbm"
    assert terrace.dbm.whichdb(tmp_path) is None


def test_reading_writes_nothing(tmp_path):
    path = tmp_path / "d"
    with terrace.dbm.open(path, "c") as d:
        d["a"] = "1"
        # Beside one that writes in this process it is the same database.
        with terrace.dbm.open(path, "r") as again:
            assert again["a"] == b"1"
    before = [(f, f.stat().st_mtime_ns) for f in sorted(path.iterdir())]
    with terrace.dbm.open(path, "r") as d:
        assert d["a"] == b"1"
    assert [(f, f.stat().st_mtime_ns) for f in sorted(path.iterdir())] == before


def test_databases_of_others_are_left_alone(tmp_path):
    path = tmp_path / "d"
    with terrace.open(path, memory="16MiB") as db:
        db.tree("users")["a"] = "1"
    for flag in "rwcn":
        with pytest.raises(terrace.dbm.error, match="not one of this module"):
            terrace.dbm.open(path, flag)
    with terrace.open(path, memory="16MiB") as db:
        assert db.names() == ["users"]


def test_what_a_killed_process_wrote_can_be_read(tmp_path):
    path = tmp_path / "d"
    code = (
        "import os, sys, terrace.dbm; d = terrace.dbm.open(sys.argv[1], 'c'); d['a'] = '1'; d.sync(); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, path], check=True)
    with terrace.dbm.open(path, "r") as d:
        assert d["a"] == b"1"
