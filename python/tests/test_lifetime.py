"""Opening, closing, forks, threads, kills; and what is refused."""

import array
import copy
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import terrace
from terrace import _database


def test_after_closing_everything_is_an_error_and_the_folder_is_free(tmp_path):
    path = tmp_path / "db"
    for _ in range(3):
        db = terrace.open(path, memory="16MiB")
        assert db.path == path
        tree, table = db.tree("t"), db.table("r", indexes={"i": "bytes:0..1"})
        tree["a"] = table["a"] = "1"
        index, view, entries = table.index("i"), tree.items(), iter(tree)
        batch = db.batch()
        batch.put(tree, "b", "2")
        db.close()
        db.close()
        assert db.closed and "closed" in repr(db)
        for use in (
            lambda: tree["a"],
            lambda: tree.put("a", "b"),
            lambda: tree.update("a", lambda old: old),
            lambda: list(tree),
            lambda: list(view),
            lambda: next(entries),
            lambda: index.get("1"),
            lambda: batch.write(),
            lambda: db.tree("t"),
            lambda: db.stats(),
            lambda: db.batch(),
            lambda: bool(tree),
        ):
            with pytest.raises(terrace.Closed):
                use()
        assert "closed" in repr(tree)
        # Although all of these are about, another process gets in.
        code = f"import terrace; print(terrace.open({str(path)!r}, memory='16MiB').tree('t')['a'])"
        assert subprocess.check_output([sys.executable, "-c", code]) == b"b'1'\n"


def test_a_structure_keeps_the_database_open_and_what_is_forgotten_is_closed(tmp_path):
    tree = terrace.open(tmp_path / "db", memory="16MiB").tree("t")
    gc.collect()
    tree["a"] = "1"
    assert tree["a"] == b"1"
    with pytest.raises(terrace.Locked):
        terrace.open(tmp_path / "db", memory="16MiB")
    del tree
    gc.collect()
    with terrace.open(tmp_path / "db", memory="16MiB") as db:
        assert db.tree("t")["a"] == b"1"
        assert db.stats().opening.replayed_records == 0


def test_a_handle_that_is_lost_while_others_are_counted_waits_for_its_turn(tmp_path):
    db = terrace.open(tmp_path / "db", memory="16MiB")
    forgotten, opened = copy.copy(db), db._opened
    with _database._counting:
        # The collector may come to any thread at any point; nobody may wait then, or count beside another one.
        del forgotten
        gc.collect()
        assert opened.handles == 2
    assert opened.handles == 1
    forgotten = copy.copy(db)
    db.close()
    assert _database.is_open(tmp_path / "db")
    del forgotten, opened
    gc.collect()
    assert not _database.is_open(tmp_path / "db")
    # The folder is free for others.
    code = f"import terrace; terrace.open({str(tmp_path / 'db')!r}, memory='16MiB')"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_after_a_panic_nothing_is_done_any_more_and_no_checkpoint_is_made(tmp_path):
    db = terrace.open(tmp_path / "db", memory="16MiB")
    tree = db.tree("t")
    tree["a"] = "1"
    snapshot = db.snapshot()
    tree["b"] = "2"
    with pytest.raises(terrace.Defect, match="planted"):
        db._native._panics()
    for use in (lambda: tree["a"], lambda: tree.put("c", "3"), lambda: snapshot["t"], db.checkpoint):
        with pytest.raises(terrace.Defect):
            use()
    db.close()
    assert db.closed
    with terrace.open(tmp_path / "db", memory="16MiB") as db:
        # What was acknowledged is in the log.
        assert db.stats().opening.replayed_records == 1
        assert db.tree("t")["a"] == b"1" and db.tree("t")["b"] == b"2"
    # Nor does a database that is lost.
    db = terrace.open(tmp_path / "db", memory="16MiB")
    db.tree("t")["c"] = "3"
    with pytest.raises(terrace.Defect):
        db._native._panics()
    del db
    gc.collect()
    with terrace.open(tmp_path / "db", memory="16MiB") as db:
        assert db.stats().opening.replayed_records == 1
        assert db.tree("t")["c"] == b"3"


def test_a_folder_is_one_database_in_a_process(tmp_path):
    one = terrace.open(tmp_path / "db", memory="16MiB")
    (tmp_path / "link").symlink_to(tmp_path / "db")
    two = terrace.open(tmp_path / "link", memory="16MiB")
    one.tree("t")["a"] = "1"
    assert two.tree("t")["a"] == b"1"
    with pytest.raises(terrace.Invalid, match="memory"):
        terrace.open(tmp_path / "db", memory="32MiB")
    one.close()
    one.close()
    assert two.tree("t")["a"] == b"1"
    two.close()
    with pytest.raises(terrace.Closed):
        one.tree("t")


def test_another_process_is_told_that_it_is_locked(tmp_path):
    with terrace.open(tmp_path / "db", memory="16MiB"):
        code = f"""
            import terrace
            try:
                terrace.open({str(tmp_path / "db")!r})
            except terrace.Locked as e:
                assert isinstance(e, BlockingIOError) and isinstance(e, OSError)
                print("locked")
        """
        assert subprocess.check_output([sys.executable, "-c", textwrap.dedent(code)]) == b"locked\n"


def test_wrong_types_and_values_are_refused_before_anything_happens(db, tmp_path):
    t = db.tree("t")
    for wrong in (1, 1.5, None, ["a"], object(), memoryview(__import__("array").array("i", [1]))):
        for use in (
            lambda: t.__setitem__(wrong, "a"),
            lambda: t.__setitem__("a", wrong),
            lambda: t[wrong],
            lambda: wrong in t,
            lambda: t.insert("a", wrong),
            lambda: t.get_many(["a", wrong]),
        ):
            with pytest.raises(TypeError, match="not"):
                use()
    with pytest.raises(UnicodeEncodeError):
        t["\ud800"] = "x"
    assert t.is_empty()
    with pytest.raises(terrace.KeyTooLong) as long:
        t[b"x" * (terrace.MAX_KEY_BYTES + 1)] = ""
    assert long.value.kind == "key_too_long" and isinstance(long.value, ValueError)
    with pytest.raises(TypeError, match="did you mean 'memory'"):
        terrace.open(tmp_path / "x", memmory=1)
    with pytest.raises(ValueError, match="512MiB"):
        terrace.open(tmp_path / "x", memory="lots")
    with pytest.raises(ValueError, match="buffered"):
        terrace.open(tmp_path / "x", durability="maybe")
    with pytest.raises(terrace.MemoryTooSmall):
        terrace.open(tmp_path / "x", memory=1000)
    with pytest.raises(terrace.Invalid):
        terrace.open(tmp_path / "missing", create=False)
    (tmp_path / "file").write_text("x")
    with pytest.raises(terrace.Error):
        terrace.open(tmp_path / "file")
    assert not (tmp_path / "x" / "data").exists()


def test_damage_is_an_error_of_its_own(tmp_path):
    with terrace.open(tmp_path / "db", memory="16MiB") as db:
        db.tree("t").update({str(i): "x" * 100 for i in range(5000)})
    data = tmp_path / "db" / "data"
    raw = bytearray(data.read_bytes())
    assert len(raw) > 400_000
    raw[100_000:] = b"\xaa" * (len(raw) - 100_000)
    data.write_bytes(raw)
    with terrace.open(tmp_path / "db", memory="16MiB") as db, pytest.raises(terrace.Corrupt, match="backup"):
        list(db.tree("t"))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "data").write_bytes(b"\xaa" * 100_000)
    with pytest.raises(terrace.Error, match="not a Terrace database"):
        terrace.open(tmp_path / "other")


def test_the_child_of_a_fork_is_told(db):
    t = db.tree("t")
    t["a"] = "1"
    entries = iter(t)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        told = []
        for use in (lambda: t["a"], lambda: t.put("a", "2"), lambda: next(entries), db.stats, db.close):
            try:
                use()
                told.append("nothing")
            except terrace.Forked:
                told.append("forked")
            except BaseException as e:
                told.append(repr(e))
        os.write(write, " ".join(told).encode())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert os.read(read, 1000) == b"forked forked forked forked forked"
    os.close(read), os.close(write)
    assert t["a"] == b"1"


def test_the_child_of_a_fork_ends_in_peace_and_may_open_its_own(tmp_path):
    code = f"""
        import os, terrace, sys
        db = terrace.open({str(tmp_path / "db")!r}, memory="16MiB")
        t = db.tree("t"); t["a"] = "1"
        child = os.fork()
        if child == 0:
            with terrace.open({str(tmp_path / "other")!r}, memory="16MiB") as own:
                own.tree("t")["a"] = "1"
            sys.exit(3)   # drops everything and runs atexit
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        assert t["a"] == b"1"
        t["b"] = "2"
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=60)
    with terrace.open(tmp_path / "db", memory="16MiB") as db:
        assert db.tree("t")["b"] == b"2"


def test_threads_count_together(db):
    h = db.hash("h")

    def work():
        for _ in range(200):
            h.update("n", lambda old: str(int(old or b"0") + 1))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert h["n"] == b"1600"


def test_closing_while_others_work_is_an_error_for_them_and_no_crash(tmp_path):
    for _ in range(5):
        db = terrace.open(tmp_path / "db", memory="16MiB")
        t = db.tree("t")
        ends = []

        def work():
            try:
                for i in range(10**9):
                    t[str(i % 1000)] = "x"
                    for _ in t.range("5", "6"):
                        pass
            except BaseException as e:
                ends.append(e)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.1)
        db.close()
        for thread in threads:
            thread.join(30)
        # The engine's own word, where it was faster.
        assert len(ends) == 3 and all(isinstance(e, terrace.Error) and "closed" in str(e) for e in ends), ends


def test_a_callback_may_close_the_database(tmp_path):
    db = terrace.open(tmp_path / "db", memory="16MiB")
    t = db.tree("t")

    def change(old):
        db.close()
        return "x"

    with pytest.raises(terrace.Error, match="closed"):
        t.update("a", change)


def test_a_kill_costs_nothing_acknowledged(tmp_path):
    code = f"""
        import terrace
        t = terrace.open({str(tmp_path / "db")!r}, memory="16MiB")
        m = t.tree("t")
        for i in range(10**9):
            m[str(i)] = "x" * 50
            print(i, flush=True)
    """
    child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE)
    last = -1
    for line in child.stdout:
        last = int(line)
        if last >= 3000:
            break
    child.send_signal(signal.SIGKILL)
    rest = child.stdout.read().split(b"\n")
    child.wait()
    child.stdout.close()
    last = max([last] + [int(line) for line in rest[:-1] if line])
    with terrace.open(tmp_path / "db", memory="16MiB") as db:
        m = db.tree("t")
        assert all(str(i) in m for i in range(last + 1))


def test_the_end_of_the_interpreter_closes_with_a_checkpoint(tmp_path):
    code = f"""
        import terrace
        db = terrace.open({str(tmp_path / "db")!r}, memory="16MiB")
        tree = db.tree("t")
        tree["a"] = "1"
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=60)
    with terrace.open(tmp_path / "db", memory="16MiB") as db:
        assert db.stats().opening.replayed_records == 0
        assert db.tree("t")["a"] == b"1"


def test_a_full_folder_of_options(tmp_path):
    with terrace.open(
        tmp_path / "db",
        memory=32 << 20,
        durability="sync",
        page_size="4KiB",
        log_limit="1MiB",
        direct_io=False,
        control=True,
    ) as db:
        assert (tmp_path / "db" / "control").is_socket()
        assert db.stats().pages.page_bytes == 4096
        db.tree("t")["a"] = "1"
        assert db.stats().log.syncs >= 1


def test_a_copy_of_a_handle_is_a_handle(tmp_path):
    db = terrace.open(tmp_path / "db", memory="16MiB")
    one, other = copy.copy(db), copy.deepcopy(db)
    db.tree("t")["a"] = "1"
    db.close()
    assert one["t"]["a"] == b"1"
    del one
    other.close()
    with pytest.raises(terrace.Closed):
        copy.copy(other)
    with terrace.open(tmp_path / "db", memory="8MiB") as again:
        forgotten = copy.copy(again)
        del forgotten
        assert again["t"]["a"] == b"1"
    terrace.open(os.fsencode(tmp_path / "db"), memory="16MiB").close()


def test_handles_of_one_structure_are_equal(tmp_path):
    with terrace.open(tmp_path / "db", memory="16MiB") as db, terrace.open(
        tmp_path / "other", memory="16MiB"
    ) as other:
        t = db.tree("t")
        assert t == db.tree("t") == db["t"] and not t != db["t"] and hash(t) == hash(db["t"])
        assert t != db.tree("u") and t != other.tree("t") and t != "t"
        assert len({t, db.tree("t"), db.tree("u")}) == 2
        db.rename("t", "v")
        assert t == db["v"]


def test_what_has_a_buffer_of_bytes_is_a_value_and_one_key_is_not_many(db):
    t, h = db.tree("t"), db.hash("h")
    numbers = array.array("i", [1, 2])
    for wrong in (numbers, memoryview(numbers)):
        with pytest.raises(TypeError, match=r"format 'i' and 4 bytes each.*cast\(\"B\"\)"):
            t.put("m", wrong)
    t.put("m", memoryview(numbers).cast("B"))
    t.put("s", memoryview(b"abcdef")[::2])
    t.put("b", array.array("B", b"bytes"))
    assert (t["m"], t["s"], t["b"]) == (numbers.tobytes(), b"ace", b"bytes")
    for many in ("abc", b"abc", bytearray(b"abc"), memoryview(b"abc")):
        with pytest.raises(TypeError, match="many keys"):
            h.get_many(many)
        with pytest.raises(TypeError, match="many keys"):
            db.read(lambda r, many=many: r.get_many(t, many))
    assert t.get_many(("m", b"none")) == [numbers.tobytes(), None]
