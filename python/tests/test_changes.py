"""Changes read commit by commit, and ranges removed."""

from pathlib import Path

import pytest

import terrace


def test_a_copy_is_fed_by_the_changes(tmp_path: Path) -> None:
    with terrace.open(tmp_path / "db", memory="16MiB", keep_changes="8MiB") as db:
        users = db.tree("users")
        users["alice"] = "Berlin"
        changes, snapshot = db.changes_and_snapshot()
        with snapshot:
            copy = dict(snapshot["users"].items())
        users["bob"] = "Lima"
        with db.batch() as batch:
            batch.put(users, "carol", "Oslo")
            batch.delete(users, "alice")
        place = None
        for commit in changes:
            for change in commit.changes:
                assert change.structure == "users"
                if change.op == "put":
                    assert change.key is not None and change.value is not None
                    copy[change.key] = change.value
                else:
                    assert change.op == "delete" and change.key is not None
                    del copy[change.key]
            place = commit.place
            if len(commit.changes) == 2:
                break
        assert copy == dict(users.items()) == {b"bob": b"Lima", b"carol": b"Oslo"}
    # It goes on from the place, in another opening too.
    with terrace.open(tmp_path / "db", memory="16MiB", keep_changes="8MiB") as db:
        assert list(db.changes(place, until_now=True)) == []
        db["users"]["dan"] = "Rome"
        (commit,) = db.changes(place, until_now=True)
        assert [change.op for change in commit.changes] == ["put"]
        assert "dan" in repr(commit.changes[0])
    with terrace.open(tmp_path / "other", memory="16MiB") as db, pytest.raises(terrace.ChangesGone):
        db.changes(place)


def test_a_range_is_removed(tmp_path: Path) -> None:
    with terrace.open(tmp_path / "db", memory="16MiB") as db:
        numbers = db.tree("numbers")
        numbers.update((f"{n:04}", str(n)) for n in range(3000))
        del numbers["0010":"2990"]
        assert [int(key) for key in numbers] == [*range(10), *range(2990, 3000)]
        del numbers[:"2995"]
        assert len(list(numbers)) == 5
        del numbers[:]
        assert numbers.is_empty()
        with pytest.raises(ValueError, match="step"):
            del numbers["a":"b":2]  # type: ignore[misc]
        with pytest.raises(TypeError, match="no order"):
            del db.hash("h")["a":"b"]
