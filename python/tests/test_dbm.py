"""The standard library's own tests of dbm modules, and what they do not ask."""

import dbm
import os
import unittest

import pytest

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
