"""Transactions, merges, snapshots and backups, in the manner of Python."""

import sys
import threading
from collections.abc import Mapping

import pytest

import terrace
from terrace import Merge, pack_int, unpack_int


@pytest.fixture
def accounts(db):
    tree = db.tree("accounts")
    tree.update({"alice": "100", "bob": "0"})
    return tree


def test_a_function_is_a_transaction_and_answers(db, accounts):
    def pay(t):
        left = int(t.get(accounts, "alice")) - 30
        t.put(accounts, "alice", str(left))
        t.put(accounts, "bob", str(int(t.get(accounts, "bob")) + 30))
        assert t.get(accounts, "bob") == b"30" and accounts["bob"] == b"0"
        return left

    assert db.transaction(pay, sync=True, label="pay") == 70
    assert accounts["alice"] == b"70" and accounts["bob"] == b"30"
    stats = db.stats().transactions
    assert stats.committed >= 1 and stats.given_up == 0


def test_what_is_raised_passes_through_and_nothing_is_done(db, accounts):
    class Mine(Exception):
        pass

    def fails(t):
        t.put(accounts, "alice", "0")
        raise Mine("no")

    with pytest.raises(Mine, match="no"):
        db.transaction(fails)
    with pytest.raises(Mine), db.begin() as t:
        t.put(accounts, "alice", "0")
        raise Mine
    assert accounts["alice"] == b"100"
    with pytest.raises(TypeError):
        db.transaction(lambda t: t.put(accounts, "alice", 7))
    with pytest.raises(TypeError):
        db.transaction(7)
    # A function commits by returning.
    with pytest.raises(TypeError, match="begin"):
        db.transaction(lambda t: t.commit())


def test_a_transaction_that_was_overtaken_is_run_again(db, accounts):
    runs = []

    def add(t):
        runs.append(int(t.get(accounts, "alice")))
        if len(runs) == 1:
            accounts["alice"] = "200"
        t.put(accounts, "alice", str(runs[-1] + 1))

    db.transaction(add, label="add")
    assert runs == [100, 200] and accounts["alice"] == b"201"
    stats = db.stats().transactions
    assert stats.conflicts == 1
    assert [c.key for c in stats.last_conflicts if c.label == "add"] == ["alice"]

    def always(t):
        value = t.get(accounts, "alice")
        accounts["alice"] = value + b"0"
        t.put(accounts, "bob", "x")

    with pytest.raises(terrace.Conflict, match="accounts"):
        db.transaction(always, attempts=3)
    assert accounts["bob"] == b"0" and accounts["alice"] == b"201000"


def test_one_that_is_begun_by_hand_conflicts_and_is_over_then(db, accounts):
    with db.begin() as t:
        t.put(accounts, "carol", "1")
        assert t.contains(accounts, "carol") and "carol" not in accounts
    assert accounts["carol"] == b"1"
    with pytest.raises(terrace.Invalid, match="ended"):
        t.get(accounts, "carol")
    with pytest.raises(terrace.Invalid, match="ended"), t:
        pass
    t.abort()
    with pytest.raises(terrace.Conflict), db.begin() as t:
        t.get(accounts, "alice")
        accounts["alice"] = "7"
        t.put(accounts, "bob", "8")
    assert accounts["bob"] == b"0"
    t = db.begin(sync=True)
    t.put(accounts, "dora", "1")
    sequence = t.commit()
    assert sequence is not None and sequence > 0
    t = db.begin()
    t.put(accounts, "erna", "1")
    del t
    assert "erna" not in accounts


def test_everything_that_one_can_do_in_one(db, accounts):
    with db.begin() as t:
        assert not t.insert(accounts, "alice", "1") and t.insert(accounts, "carol", "5")
        assert t.remove(accounts, "bob") == b"0" and t.remove(accounts, "bob") is None
        before = t.savepoint()
        assert t.update(accounts, "carol", lambda old: str(int(old) * 2))
        t.delete(accounts, "alice")
        assert t.get_many(accounts, ["alice", "carol"], 0) == [0, b"10"]
        t.rollback_to(before)
        assert t.get_many(accounts, ["alice", "bob", "carol"]) == [b"100", None, b"5"]
        assert t.update(accounts, "carol", lambda old: None) and t.get(accounts, "carol", 9) == 9
        assert not t.update(accounts, "nobody", lambda old: None)
        assert t.get_unchecked(accounts, "alice") == b"100"
    assert dict(accounts.items()) == {b"alice": b"100"}
    with pytest.raises(terrace.Invalid, match="savepoint"), db.begin() as t:
        t.rollback_to(before)


def test_ranges_see_the_own_changes_from_both_ends(db):
    tree = db.tree("t")
    model = {f"{n:04}".encode(): b"old" for n in range(1000)}
    tree.update(model)
    with db.begin() as t:
        for n in range(0, 1200, 7):
            t.put(tree, f"{n:04}", "new")
            model[f"{n:04}".encode()] = b"new"
        for n in range(0, 1000, 11):
            t.delete(tree, f"{n:04}")
            model.pop(f"{n:04}".encode(), None)
        want = sorted(model.items())
        assert list(t.items(tree)) == want
        assert list(t.items(tree, reverse=True)) == want[::-1]
        some = [item for item in want if b"0100" <= item[0] < b"0900"]
        assert list(t.range(tree, "0100", "0900")) == some
        assert list(t.range(tree, "0100", "0900", reverse=True)) == some[::-1]
        tens = [item for item in want if item[0].startswith(b"01")]
        assert list(t.prefix(tree, "01")) == tens and list(t.prefix(tree, "01", reverse=True)) == tens[::-1]
        assert list(t.prefix(tree, b"\xff")) == []
    assert list(tree.items()) == want
    hash_ = db.hash("h")
    hash_.update({"a": "1", "b": "2"})
    with db.begin() as t:
        t.put(hash_, "c", "3")
        t.delete(hash_, "a")
        assert dict(t.items(hash_)) == {b"b": b"2", b"c": b"3"}
        with pytest.raises(terrace.Invalid, match="no order"):
            t.range(hash_)


def test_a_range_that_was_begun_counts_as_read(db, accounts):
    with pytest.raises(terrace.Conflict), db.begin() as t:
        t.range(accounts, "a", "c")
        accounts["azra"] = "1"
        t.put(accounts, "x", "y")
    with db.begin() as t:
        t.range(accounts, "a", "c")
        accounts["zora"] = "1"
        t.put(accounts, "x", "y")
    assert accounts["x"] == b"y"
    t = db.begin()
    entries = t.items(accounts)
    t.abort()
    with pytest.raises(terrace.Invalid, match="ended"):
        next(entries)


def test_indexes_in_a_transaction(db):
    people = db.table("people", indexes={"city": "csv:1", "badge": "unique:csv:2"})
    people["a"] = "Berlin,1"
    people["b"] = "Lima,2"
    with db.begin() as t:
        t.put(people, "c", "Berlin,3")
        t.delete(people, "b")
        assert [key for key, _ in t.index_get(people, "city", "Berlin")] == [b"a", b"c"]
        assert [key for key, _ in t.index_range(people, "city", "B", "M", reverse=True)] == [b"c", b"a"]
    with pytest.raises(terrace.Duplicate), db.begin() as t:
        t.put(people, "d", "Oslo,3")
    assert "d" not in people


def test_reads_of_one_instant(db, accounts):
    runs = []

    def total(r):
        first = int(r.get(accounts, "alice"))
        if not runs:
            runs.append(1)
            db.transaction(lambda t: (t.put(accounts, "alice", "0"), t.put(accounts, "bob", "100")))
        return first + int(r.get(accounts, "bob"))

    assert db.read(total, label="audit") == 100
    with pytest.raises(AttributeError):
        db.read(lambda r: r.put(accounts, "alice", "1"))


@pytest.mark.parametrize("kind", ["tree", "hash", "table"])
def test_merges(db, kind):
    m = getattr(db, kind)("m")
    assert m.merge("n", Merge.add(5)) and m.merge("n", Merge.add(-7), sync=True)
    assert unpack_int(m["n"]) == -2 and m["n"] == pack_int(-2)
    m["short"] = "x"
    with pytest.raises(terrace.Invalid):
        m.merge("short", Merge.add(1))
    with pytest.raises(OverflowError):
        Merge.add(1 << 70)
    assert m.merge("low", Merge.min("b")) and not m.merge("low", Merge.min("c")) and m["low"] == b"b"
    assert m.merge("low", Merge.max("c")) and m["low"] == b"c"
    assert m.merge("log", Merge.append("ab")) and m.merge("log", Merge.append(b"c", limit=3))
    with pytest.raises(terrace.Invalid, match="limit"):
        m.merge("log", Merge.append("d", limit=3))
    assert m["log"] == b"abc"
    assert m.merge("new", Merge.set_if_absent("1")) and not m.merge("new", Merge.set_if_absent("2"))
    assert m.merge("new", Merge.compare_and_set("1", "2")) and not m.merge("new", Merge.compare_and_set("1", "3"))
    assert m.merge("new", Merge.compare_and_set("2", None)) and "new" not in m
    assert m.merge("new", Merge.compare_and_set(None, "4")) and m["new"] == b"4"
    with db.batch() as batch:
        batch.merge(m, "n", Merge.add(3))
        batch.merge(m, "n", Merge.add(1))
        batch.put(m, "last", "1")
    assert unpack_int(m["n"]) == 2 and m["last"] == b"1"
    with db.begin() as t:
        t.merge(m, "n", Merge.add(1))
        # Not read, so this is no conflict.
        m.merge("n", Merge.add(10))
    assert unpack_int(m["n"]) == 13
    assert "Add" in repr(Merge.add(1))


def test_threads_lose_nothing(db, accounts):
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    errors = []

    def work(seed):
        try:
            for turn in range(40):
                names = ("alice", "bob") if (turn + seed) % 2 else ("bob", "alice")

                def move(t, names=names):
                    have = [int(t.get(accounts, name)) for name in names]
                    t.put(accounts, names[0], str(have[0] - 1))
                    t.put(accounts, names[1], str(have[1] + 1))
                    t.merge(accounts, "count", Merge.add(1))

                db.transaction(move)
                total = db.read(lambda r: int(r.get(accounts, "alice")) + int(r.get(accounts, "bob")))
                assert total == 100
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(interval)
    assert errors == []
    assert unpack_int(accounts["count"]) == 160


def test_closing_ends_transactions_and_snapshots(tmp_path):
    db = terrace.open(tmp_path / "db", memory="16MiB")
    tree = db.tree("t")
    tree["a"] = "1"
    t = db.begin()
    t.put(tree, "b", "2")
    snapshot = db.snapshot()
    then = snapshot["t"]

    def closes(t):
        t.put(tree, "c", "3")
        db.close()

    with pytest.raises(terrace.Closed):
        db.transaction(closes)
    for call in (t.commit, snapshot.names, lambda: then["a"], lambda: t.get(tree, "a")):
        with pytest.raises(terrace.Closed):
            call()
    snapshot.close()
    with terrace.open(tmp_path / "db", memory="16MiB") as db:
        assert dict(db.tree("t").items()) == {b"a": b"1"}


def test_a_snapshot_is_of_one_instant(db, accounts):
    people = db.table("people", indexes={"city": "csv:1"})
    people["a"] = "Berlin"
    counts = db.hash("counts")
    counts["x"] = "1"
    with db.snapshot() as snapshot:
        accounts["alice"] = "7"
        people["b"] = "Berlin"
        del counts["x"]
        assert snapshot.names() == ["accounts", "counts", "people"] and "counts" in snapshot
        then = snapshot["accounts"]
        assert isinstance(then, Mapping) and not isinstance(then, terrace.Map)
        assert dict(then.items()) == {b"alice": b"100", b"bob": b"0"} == dict(then)
        assert then["alice"] == b"100" and then.get("zoe") is None and then.get("zoe", 1) == 1
        assert then.get_many(["bob", "zoe"]) == [b"0", None]
        assert list(then) == list(then.keys()) == [b"alice", b"bob"] and list(reversed(then)) == [b"bob", b"alice"]
        assert list(then.range("b", reverse=True)) == [(b"bob", b"0")] and list(then.prefix("al")) == [(b"alice", b"100")]
        assert "bob" in then and b"100" in then.values() and ("bob", "0") in then.items() and "zoe" not in then.keys()
        assert then and not then.is_empty() and then.estimated_len() == 2 and then.name == "accounts"
        with pytest.raises(KeyError):
            then["zoe"]
        with pytest.raises(TypeError, match="estimated_len"):
            len(then)
        with pytest.raises(TypeError):
            then["alice"] = "1"
        rows = snapshot["people"]
        assert rows.kind == "table" and rows.indexes() == {"city": "csv:1"}
        assert list(rows.index("city").get("Berlin")) == [(b"a", b"Berlin")]
        assert dict(snapshot["counts"].items()) == {b"x": b"1"}
        with pytest.raises(terrace.NoSuchStructure):
            snapshot["nothing"]
        assert snapshot.verify() == [] and snapshot.sequence > 0 and snapshot.time > 1e9
        with db.snapshot(max_age=3600) as same:
            assert same.sequence == snapshot.sequence
        entries = then.items().__iter__()
    assert snapshot.closed and "closed" in repr(snapshot)
    for call in (lambda: then["alice"], lambda: next(entries), snapshot.names):
        with pytest.raises(terrace.Closed, match="snapshot"):
            call()
    snapshot.close()
    assert accounts["alice"] == b"7"
    for wrong in (float("nan"), -1, 1e300):
        with pytest.raises(ValueError):
            db.snapshot(max_age=wrong)


def test_a_backup_is_restored(db, accounts, tmp_path):
    backup = tmp_path / "set"
    first = db.backup(backup)
    accounts["alice"] = "1"
    second = db.backup(backup, rate="fast")
    assert (first.point, second.point) == (1, 2) and second.stored_pages <= first.stored_pages
    assert [point.point for point in terrace.list_backup(backup)] == [1, 2]
    assert abs(terrace.list_backup(backup)[1].time - second.time) < 1
    report = terrace.verify_backup(backup)
    assert report.whole == [1, 2] and report.problems == []
    made = terrace.restore(backup, tmp_path / "old", point=1, memory="16MiB")
    assert made.verified and made.structures == ["accounts"] and made.point.point == 1
    with terrace.open(tmp_path / "old", memory="16MiB") as old:
        assert old["accounts"]["alice"] == b"100"
    terrace.restore(backup, tmp_path / "new", structure="accounts", memory="16MiB")
    with terrace.open(tmp_path / "new", memory="16MiB") as new:
        assert new["accounts"]["alice"] == b"1"
    with pytest.raises(terrace.Invalid):
        terrace.restore(backup, tmp_path / "new")
    with pytest.raises(terrace.Invalid):
        terrace.list_backup(tmp_path / "nothing")
    with pytest.raises(ValueError, match="gentle"):
        db.backup(backup, rate="slowly")


@pytest.mark.parametrize("what", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_is_no_exception_ends_it_though_others_were_faster(db, accounts, what):
    runs = []

    def interrupted(t):
        runs.append(t.get(accounts, "alice"))
        accounts["alice"] = str(len(runs))
        raise what(3)

    with pytest.raises(what):
        db.transaction(interrupted)
    with pytest.raises(what):
        db.read(interrupted)
    assert len(runs) == 2

    # What is one is raised if it holds of what is there now.
    def fails(t):
        runs.append(t.get(accounts, "alice"))
        if len(runs) == 3:
            accounts["alice"] = "7"
            raise ValueError("of a state that is gone")
        raise KeyError(t.get(accounts, "alice"))

    with pytest.raises(KeyError, match="7"):
        db.transaction(fails)


def test_greenlets_may_change_places_in_functions(db, accounts):
    from greenlet import getcurrent, greenlet

    hub = getcurrent()
    done = []

    def elsewhere(answer):
        hub.switch()
        return answer

    def pays(t):
        left = elsewhere(int(t.get(accounts, "alice"))) - 1
        t.put(accounts, "alice", str(elsewhere(left)))

    def transactions():
        for _ in range(5):
            db.transaction(pays, attempts=10_000)
        done.append(1)

    def updates():
        for _ in range(5):
            accounts.update("n", lambda old: elsewhere(str(int(old or 0) + 1)))
        done.append(1)

    def loads():
        accounts.load((f"l{i}", elsewhere("x")) for i in range(5))
        accounts.update((f"u{i}", elsewhere("x")) for i in range(5))
        done.append(1)

    def by_hand():
        with db.begin() as t:
            t.put(accounts, "hand", elsewhere("1"))
            assert sum(elsewhere(1) for _ in t.prefix(accounts, "bob")) == 1
            t.abort()
        done.append(1)

    green = [greenlet(work) for work in (transactions, updates, loads, by_hand) * 3]
    while not all(one.dead for one in green):
        for one in green:
            if not one.dead:
                one.switch()
    assert len(done) == len(green)
    assert (accounts["alice"], accounts["n"]) == (b"85", b"15")
    assert db.verify() == []


def test_a_queue_is_taken_in_transactions(db):
    queue, taken = db.tree("queue"), db.hash("taken")
    queue.update((f"{i:03}", "x") for i in range(40))

    def take():
        def one(t):
            record = t.pop_first(queue)
            assert record is None or t.insert(taken, record[0], "1")
            return record

        while db.transaction(one):
            pass

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(taken)) == 40 and queue.is_empty()
    queue.update({"a": "1", "b": "2"})
    assert queue.pop_last() == (b"b", b"2") and queue.pop_first() == (b"a", b"1") and queue.pop_first() is None
    assert db.transaction(lambda t: (t.put(queue, "c", "3"), t.pop_last(queue))[1]) == (b"c", b"3")
    with pytest.raises(terrace.Invalid):
        db.transaction(lambda t: t.pop_first(taken))


def test_a_transaction_that_becomes_too_large_is_told_at_once(db):
    tree, put = db.tree("t"), []

    def many(t):
        for i in range(10**6):
            put.append(i)
            t.put(tree, f"{i:08}", "x" * 1000)

    with pytest.raises(terrace.Invalid, match="half of the memory"):
        db.transaction(many)
    assert len(put) < 10_000 and tree.is_empty()
