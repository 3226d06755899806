"""Structures have the manners of mappings, and what they can do besides."""

import pickle
import threading
import time
from collections.abc import MutableMapping

import pytest

import terrace


@pytest.fixture(params=["tree", "hash", "table", "lsm"])
def any_map(db, request):
    return getattr(db, request.param)("m")


def test_records_go_in_and_come_out(any_map):
    m = any_map
    assert isinstance(m, MutableMapping)
    assert not m and m.is_empty()
    m[b"a"] = b"1"
    m["b"] = "2"
    m[bytearray(b"c")] = memoryview(b"3")
    assert m and m["a"] == b"1" and m[memoryview(b"b")] == b"2" and m.get("c") == b"3"
    assert "a" in m and b"z" not in m
    assert m.get("z") is None and m.get("z", 7) == 7
    with pytest.raises(KeyError) as missing:
        m["z"]
    assert missing.value.args == ("z",)
    with pytest.raises(KeyError):
        del m["z"]
    del m["c"]
    assert m.get_many(["a", "z", b"b"]) == [b"1", None, b"2"]
    assert m.get_many(iter(["z"]), 0) == [0]
    assert m.insert("a", "x") is False and m.insert("d", "4") is True
    assert m.remove("d") == b"4" and m.remove("d") is None
    m.delete("nothing", sync=True)
    m.put("e", "5", sync=True)
    assert m.pop("e") == b"5" and m.pop("e", None) is None
    with pytest.raises(KeyError):
        m.pop("e")
    with pytest.raises(TypeError):
        m.pop("e", 1, 2)
    assert m.setdefault("f", "6") == b"6" and m.setdefault("f", "7") == b"6"
    assert dict(m.items()) == {b"a": b"1", b"b": b"2", b"f": b"6"}
    assert sorted(m) == sorted(m.keys()) == [b"a", b"b", b"f"]
    assert sorted(m.values()) == [b"1", b"2", b"6"]
    assert b"a" in m.keys() and ("a", "1") in m.items() and ("a", "2") not in m.items() and b"6" in m.values()
    assert list(reversed(list(m))) == list(reversed(m))
    assert m.estimated_len() == 3
    key, value = m.popitem()
    assert key not in m and len(dict(m.items())) == 2
    m.clear()
    assert list(m) == []
    with pytest.raises(KeyError):
        m.popitem()
    assert m.kind in repr(m) and m.name == "m"


def test_the_length_is_not_known_and_says_so(any_map):
    with pytest.raises(TypeError, match="estimated_len"):
        len(any_map)
    any_map["a"] = "1"
    # What asks for a hint only is not bothered.
    assert list(any_map) == [b"a"]


def test_a_dictionary_that_others_change_while_it_is_written_is_an_error(db):
    many = {str(i): "v" for i in range(50_000)}
    ended = threading.Event()

    def change():
        i = 0
        while not ended.is_set():
            many[f"x{i}"] = "y"
            i += 1

    thread = threading.Thread(target=change)
    thread.start()
    try:
        with pytest.raises(RuntimeError, match="changed size"):
            db.tree("t").update(many)
    finally:
        ended.set()
        thread.join()


def test_update_takes_what_a_dictionary_takes(any_map):
    m = any_map
    m.update({"a": "1", b"b": b"2"})
    m.update([("c", "3"), (b"d", b"4")])
    m.update(x="5")
    m.update({"y": "6"}, z="7")
    m.update()
    other = {b"k%d" % i: b"v" * 100 for i in range(25_000)}
    m.update(other)
    assert m["a"] == b"1" and m["d"] == b"4" and m["x"] == b"5" and m["y"] == b"6" and m["z"] == b"7"
    assert sum(1 for _ in m) == 25_000 + 7
    for wrong in (1, [1], [("a",)], [("a", "b", "c")], {"a": 1}, {1: "a"}):
        with pytest.raises((TypeError, ValueError)):
            m.update(wrong)


def test_a_value_is_changed_by_a_function(any_map):
    m = any_map
    assert m.update("n", lambda old: str(int(old or b"0") + 1)) is False
    assert m.update("n", lambda old: str(int(old) + 1), sync=True) is True
    assert m["n"] == b"2"
    # The function may use the database, and what it raises passes through.
    assert m.update("n", lambda old: m["n"] + b"!") is True
    with pytest.raises(ZeroDivisionError):
        m.update("n", lambda old: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        m.update("new", lambda old: 1 // 0)
    with pytest.raises(TypeError):
        m.update("n", lambda old: 5)
    with pytest.raises(TypeError):
        m.update("n", "no function")
    assert m["n"] == b"2!" and "new" not in m
    assert m.update("n", lambda old: None) is True
    assert "n" not in m


def test_ranges_have_two_ends(db):
    for m in (db.tree("t"), db.table("r"), db.lsm("l")):
        m.update({f"{i:04}": str(i) for i in range(3000)})
        keys = [key for key, _ in m.range("0010", "0020")]
        assert keys == [b"%04d" % i for i in range(10, 20)]
        assert [key for key, _ in m.range("0010", "0020", reverse=True)] == keys[::-1]
        assert len(list(m.range())) == 3000
        assert next(m.range("2999"))[1] == b"2999" and list(m.range("3")) == []
        assert [k for k, _ in m.range(stop="0002")] == [b"0000", b"0001"]
        assert [k for k, _ in m.prefix("001", reverse=True)] == keys[::-1]
        assert m.first() == (b"0000", b"0") and m.last() == (b"2999", b"2999")
        assert list(m.range("5", "1")) == []
    assert db.tree("empty").first() is None


def test_a_structure_may_change_while_it_is_gone_through(db):
    m = db.tree("t")
    m.update({f"{i:05}": "x" for i in range(5000)})
    seen = 0
    for key in m:
        del m[key]
        seen += 1
    assert seen == 5000 and m.is_empty()


def test_tables_have_indexes(db):
    people = db.table("people", indexes={"city": "json:/city", "badge": "unique:json:/badge"})
    people["alice"] = '{"city":"Berlin","badge":7}'
    people["bob"] = '{"city":"Lima","badge":8}'
    people["carol"] = '{"city":"Lima","badge":9}'
    city = people.index("city")
    assert [key for key, _ in city.get("Lima")] == [b"bob", b"carol"]
    assert [key for key, _ in city.range("A", "C")] == [b"alice"]
    assert [key for key, _ in city.prefix("L", reverse=True)] == [b"carol", b"bob"]
    assert list(city.keys(reverse=True))[0] == (b"Lima", b"carol")
    assert len(list(city)) == 3
    assert people.index("badge").unique and not city.unique and city.name == "city"
    with pytest.raises(terrace.Duplicate, match="badge"):
        people["dave"] = '{"city":"Oslo","badge":7}'
    with pytest.raises(terrace.Invalid):
        people["eve"] = "no json"
    assert people.indexes() == {"city": "json:/city", "badge": "unique:json:/badge"}
    people.create_index("first", "bytes:0..1")
    assert len(list(people.index("first").get("{"))) == 3
    people.drop_index("first")
    with pytest.raises(terrace.Invalid):
        people.index("first")
    # Who says nothing of indexes takes what is there; who says others is told.
    assert db.table("people").indexes() == people.indexes()
    with pytest.raises(terrace.Invalid, match="index"):
        db.table("people", indexes={"town": "json:/town"})
    with pytest.raises(terrace.Invalid):
        db.table("other", indexes={"bad": "nothing"})


def test_a_batch_is_all_or_nothing(db):
    t, h = db.tree("t"), db.hash("h")
    t["gone"] = "x"
    with db.batch(sync=True) as batch:
        batch.put(t, "a", "1")
        batch.put(h, "b", "2")
        batch.delete(t, "gone")
        assert len(batch) == 3 and "a" not in t
    assert t["a"] == b"1" and h["b"] == b"2" and "gone" not in t
    with pytest.raises(RuntimeError, match="written already"):
        batch.put(t, "c", "3")
    with pytest.raises(ZeroDivisionError), db.batch() as batch:
        batch.put(t, "d", "4")
        1 // 0
    with pytest.raises(terrace.KeyTooLong), db.batch() as batch:
        batch.put(t, "e", "5")
        batch.put(t, b"x" * (terrace.MAX_KEY_BYTES + 1), "6")
    assert "d" not in t and "e" not in t
    with pytest.raises(TypeError):
        batch.put(5, "a", "b")


def test_many_records_are_loaded(db):
    t = db.tree("t")
    assert t.load((f"{i:06}", str(i)) for i in range(20_000)) == 20_000
    assert t["000777"] == b"777" and t.load([]) == 0
    with pytest.raises(TypeError):
        t.load([("a", 1)])


def test_structures_are_found_made_renamed_and_dropped(db):
    db.tree("t", tiers=1)
    db.hash("h", logged=False)
    assert db.names() == ["h", "t"] == list(db)
    assert "t" in db and "x" not in db and 5 not in db
    assert isinstance(db["t"], terrace.Tree) and isinstance(db["h"], terrace.Hash)
    assert isinstance(db.lsm("l"), terrace.Lsm) and isinstance(db["l"], terrace.Lsm) and db["l"].kind == "lsm"
    del db["l"]
    with pytest.raises(LookupError):
        db["x"]
    with pytest.raises(terrace.Invalid):
        db.hash("t")
    db.rename("t", "u")
    del db["h"]
    assert db.names() == ["u"]
    with pytest.raises(terrace.StructureExists):
        db.tree("v")
        db.rename("u", "v")
    with pytest.raises(ValueError):
        db.tree("w", tiers=3)
    with pytest.raises(TypeError):
        db.tree("w", policy="best")


def test_codecs(db):
    settings = db.tree("settings", codec=terrace.json)
    settings["a"] = {"list": [1, 2.5, None, "ü"]}
    assert settings["a"] == {"list": [1, 2.5, None, "ü"]}
    assert dict(settings.items()) == {"a": {"list": [1, 2.5, None, "ü"]}}
    assert settings.setdefault("b", 1) == 1 and settings.pop("b") == 1
    assert settings.get_many(["a", "z"])[1] is None
    by_number = db.tree("numbers", codec=terrace.int_key(terrace.text))
    for n in (5, -3, 0, 2**63 - 1, -(2**63)):
        by_number[n] = str(n)
    assert list(by_number) == [-(2**63), -3, 0, 5, 2**63 - 1]
    assert list(by_number.range(-3, 5)) == [(-3, "-3"), (0, "0")]
    assert list(by_number.range(-3, 5, reverse=True)) == [(0, "0"), (-3, "-3")]
    with pytest.raises(OverflowError):
        by_number[2**63] = "x"
    with pytest.raises(TypeError):
        len(by_number)
    with pytest.raises(KeyError):
        del by_number[77]
    backwards = terrace.Codec((lambda s: s.encode()[::-1], lambda b: b[::-1].decode()), (pickle.dumps, pickle.loads))
    objects = db.hash("objects", codec=backwards)
    objects["key"] = {1, 2}
    assert objects["key"] == {1, 2} and objects.raw["yek"]
    with pytest.raises(TypeError):
        objects.range()


def test_figures(db):
    t = db.tree("t")
    t["a"] = "1"
    stats = db.stats()
    assert stats.memory.limit == 16 << 20
    assert stats.structures[0].name == "t"
    assert stats.to_dict()["memory"]["limit"] == 16 << 20
    with pytest.raises(AttributeError, match="there are"):
        stats.nothing
    assert db.stats(survey=True).structures[0].records == 1
    assert "terrace_memory_limit_bytes 16777216\n" in db.metrics()
    assert db.metrics(openmetrics=True, survey=True).endswith("# EOF\n")
    assert "records, about" in db.describe()
    assert db.verify() == []
    db.checkpoint()
    db.sync()


def test_shelve(db):
    shelf = terrace.shelve(db.tree("objects"))
    shelf["a"] = [1, {"b": 2}]
    assert shelf["a"] == [1, {"b": 2}] and list(shelf) == ["a"] and "a" in shelf
    shelf.close()
    with terrace.shelve(db.hash("more"), writeback=True) as shelf:
        shelf["x"] = []
        shelf["x"].append(1)
    assert terrace.shelve(db["more"])["x"] == [1]


def test_what_is_to_be_synced_is_synced(tmp_path):
    def syncs(db, write):
        before = db.stats().log.syncs
        write()
        return db.stats().log.syncs > before

    def a_batch(db, **named):
        with db.batch(**named) as batch:
            batch.put(db["t"], "c", "3")

    with terrace.open(tmp_path / "db", memory="16MiB", durability="sync") as db:
        t = db.tree("t")
        unlogged = db.hash("u", logged=False)
        assert syncs(db, lambda: t.put("a", "1"))
        assert syncs(db, lambda: t.update({"a": "1", "b": "2"}))
        assert syncs(db, lambda: t.update([("a", "1")]))
        assert syncs(db, lambda: t.update(x="1"))
        assert syncs(db, lambda: a_batch(db))
        assert syncs(db, lambda: t.clear())
        assert not syncs(db, lambda: t.update({"a": "1"}, sync=False))
        assert not syncs(db, lambda: a_batch(db, sync=False))
        # What has no log cannot be synced, and is no bar.
        unlogged.update({"a": "1"})
        unlogged.clear()
        with pytest.raises(terrace.Invalid):
            unlogged.update({"a": "1"}, sync=True)
    with terrace.open(tmp_path / "db", memory="16MiB") as db:
        t = db.tree("t")
        assert not syncs(db, lambda: t.update({"a": "1"}))
        assert not syncs(db, lambda: a_batch(db))
        assert syncs(db, lambda: t.update({"a": "1"}, sync=True))
        assert syncs(db, lambda: a_batch(db, sync=True))


def test_a_database_can_be_only_read(tmp_path):
    path = tmp_path / "db"
    with terrace.open(path, memory="16MiB") as db:
        db.tree("t")["a"] = "1"
        with pytest.raises(terrace.Invalid, match="read_only"):
            terrace.open(path, memory="16MiB", read_only=True)
    files = sorted(path.iterdir())
    before = [(f, f.stat().st_mtime_ns) for f in files]
    with terrace.open(path, memory="16MiB", read_only=True) as db:
        t = db.tree("t")
        assert t["a"] == b"1" and list(t) == [b"a"] and db.names() == ["t"]
        with pytest.raises(terrace.Error):
            t["b"] = "2"
        with pytest.raises(terrace.Error):
            db.tree("new")
    assert [(f, f.stat().st_mtime_ns) for f in sorted(path.iterdir())] == before
    with pytest.raises(terrace.Error):
        terrace.open(tmp_path / "nothing", read_only=True)


def test_records_may_expire(tmp_path):
    with terrace.open(tmp_path / "db", memory="16MiB") as db:
        structures = (
            db.hash("h", expiring=True),
            db.tree("t", expiring=True),
            db.lsm("l", expiring=True),
            db.table("r", indexes={"first": "bytes:0..1"}, expiring=True),
        )
        for t in structures:
            t.put("a", "1", expire=3600)
            t.put("b", "2")
            t.put("c", "3", expire=0)
            assert t["a"] == b"1" and "c" not in t and sorted(t) == [b"a", b"b"]
            assert 3500 < t.expires("a") - time.time() <= 3601 and t.expires("b") is None
            with pytest.raises(KeyError):
                t.expires("c")
            assert t.touch("a") and t.expires("a") is None
            assert t.touch("b", 60) and not t.touch("c", 60)
            assert t.touch("b", 0) and "b" not in t
            with db.batch() as batch:
                batch.put(t, "d", "4", expire=60)
                batch.put(t, "e", "5", expire=-1)
            assert "d" in t and "e" not in t
        coded = db.hash("coded", codec=terrace.json, expiring=True)
        coded.put("a", {"n": 1}, expire=60)
        assert coded["a"] == {"n": 1} and coded.expires("a") > time.time()
        assert coded.touch("a") and coded.expires("a") is None
        with pytest.raises(terrace.Invalid):
            db.tree("plain").put("a", "1", expire=60)
        with pytest.raises(ValueError):
            t.put("a", "1", expire=1e300)
