"""What takes long: it hears signals, is cancelled, and tells how far it is; backups, following, compaction."""

import datetime
import os
import signal
import threading
import time

import pytest

import terrace

RECORDS = [(b"%08d" % i, b"v" * 100) for i in range(200_000)]


class Heard(Exception):
    pass


@pytest.fixture
def alarm():
    def heard(*_):
        raise Heard

    before = signal.signal(signal.SIGALRM, heard)
    yield lambda: signal.setitimer(signal.ITIMER_REAL, 0.03)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_signals_are_heard_before_a_call_is_done(db, tmp_path, alarm):
    tree = db.tree("t")
    calls = {
        "update(list)": lambda: tree.update(RECORDS),
        "update(dict)": lambda: tree.update(dict(RECORDS)),
        "load(list)": lambda: tree.load(RECORDS),
    }
    for call in calls.values():
        alarm()
        with pytest.raises(Heard):
            call()
        assert sum(1 for _ in tree) < len(RECORDS)
        tree.clear()
        assert tree.is_empty()
    # While what was sorted is written.
    writing = []

    def all_of_them():
        yield from RECORDS
        writing.append(alarm())

    with pytest.raises(Heard):
        tree.load(all_of_them())
    assert writing and sum(1 for _ in tree) < len(RECORDS)
    # What is done once more comes out right.
    assert tree.load(RECORDS) == len(RECORDS) == sum(1 for _ in tree)

    keys = [key for key, _ in RECORDS] * 2
    began = time.monotonic()
    tree.get_many(keys)
    whole = time.monotonic() - began
    began = time.monotonic()
    alarm()
    with pytest.raises(Heard):
        tree.get_many(keys)
    assert time.monotonic() - began < whole / 2

    alarm()
    with pytest.raises(Heard):
        tree.clear()
    assert 0 < sum(1 for _ in tree)
    for call in (lambda: db.backup(tmp_path / "set", rate="64k"), lambda: db.compact(rate="4k")):
        alarm()
        with pytest.raises(Heard):
            call()
    # Of a batch nothing is written then.
    tree.clear()
    batch = db.batch()
    for key, value in RECORDS:
        batch.put(tree, key, value[:10])
    alarm()
    with pytest.raises(Heard):
        batch.write()
    assert tree.is_empty()
    assert db.verify() == []
    db.backup(tmp_path / "set", rate="fast")


def test_what_takes_long_is_cancelled_and_tells_how_far_it_is(db, tmp_path):
    tree = db.tree("t")
    tree.load(RECORDS[:20_000])
    cancel = terrace.Cancel()
    assert not cancel.cancelled
    timer = threading.Timer(0.05, cancel.cancel)
    timer.start()
    with pytest.raises(terrace.Cancelled):
        db.backup(tmp_path / "set", rate="64k", cancel=cancel)
    assert cancel.cancelled
    told = []
    made = db.backup(tmp_path / "set", rate="fast", progress=lambda *said: told.append(said))
    assert told and all(work == "backup" and done <= total for work, done, total in told)
    with pytest.raises(terrace.Cancelled):
        db.compact(cancel=cancel)
    told.clear()
    assert db.compact(rate="fast", fill=0.9, progress=lambda *said: told.append(said)).pages_after > 0
    assert {work for work, _, _ in told} >= {"compact"}

    def fails(*_):
        raise Heard

    with pytest.raises(Heard):
        db.backup(tmp_path / "other", rate="fast", progress=fails)
    with pytest.raises(terrace.Cancelled):
        terrace.restore(tmp_path / "set", tmp_path / "no", cancel=cancel)
    with pytest.raises(Heard):
        terrace.restore(tmp_path / "set", tmp_path / "no", progress=fails)
    assert terrace.restore(tmp_path / "set", tmp_path / "yes", progress=lambda *_: 0).point.point == made.point
    assert terrace.verify_backup(tmp_path / "set", progress=lambda *_: 0).problems == []


def test_the_log_is_followed_and_restored_to_marks_and_times(db, tmp_path):
    tree, set = db.tree("t"), os.fsencode(tmp_path / "set")

    def restored(to, **state):
        terrace.restore(set, os.fsencode(tmp_path / to), memory="16MiB", **state)
        with terrace.open(os.fsencode(tmp_path / to), memory="16MiB") as then:
            return then["t"].get("a")

    with db.follow(set, every=0.05) as follower:
        tree["a"] = "1"
        mark = db.mark("first")
        assert mark.name == "first" and abs(mark.time - time.time()) < 600
        time.sleep(1.1)
        tree["a"] = "2"
        last = follower.archive()
        assert last > mark.sequence and follower.status().sequence == last
    assert follower.status().error is None
    follower.stop()
    with pytest.raises(terrace.Invalid):
        follower.archive()
    assert restored("new") == b"2"
    assert restored("mark", mark="first") == b"1"
    assert restored("sequence", sequence=mark.sequence) == b"1"
    assert restored("time", time=mark.time + 0.5) == b"1"
    when = datetime.datetime.fromtimestamp(mark.time + 0.5, datetime.UTC)
    assert restored("datetime", time=when) == b"1"
    with pytest.raises(ValueError, match="one state"):
        terrace.restore(set, tmp_path / "no", mark="first", point=1)
    with pytest.raises(terrace.Error):
        terrace.restore(set, tmp_path / "no", mark="none of this name")
    # Closing the database ends it, too.
    follower = db.follow(set)
    db.close()
    follower.stop()


def test_lsm_trees_are_compressed(db):
    for name, compression in (("none", "none"), ("lz4", "lz4"), ("levels", 2), ("zero", 0)):
        lsm = db.lsm(name, compression=compression)
        lsm["a"] = "1"
        assert db.lsm(name, compression=compression)["a"] == b"1"
    for wrong in ("zip", 1.5, b"lz4"):
        with pytest.raises(ValueError, match="compression"):
            db.lsm("x", compression=wrong)
