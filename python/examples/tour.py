"""Five minutes of Terrace in Python."""

from __future__ import annotations

import tempfile
from pathlib import Path

import terrace


def main(folder: str) -> None:
    # One number for everything that the database keeps in memory.
    with terrace.open(Path(folder) / "tour.db", memory="64MiB") as db:
        users = db.tree("users")
        users["alice"] = "Berlin"
        users.update({"bob": "Lima", "carol": "Oslo"})
        assert users["alice"] == b"Berlin"
        for key, value in users.range("a", "c", reverse=True):
            print(key.decode(), value.decode())

        # Read and change in one step; numbers as values.
        visits = db.hash("visits")
        for _ in range(3):
            visits.update("alice", lambda old: str(int(old or b"0") + 1))
        print("alice came", visits["alice"].decode(), "times")

        # Rows with indexes: whatever changes a row changes the indexes with it.
        people = db.table("people", indexes={"city": "json:/city", "badge": "unique:json:/badge"})
        people["alice"] = '{"city":"Berlin","badge":7}'
        people["bob"] = '{"city":"Lima","badge":8}'
        for key, row in people.index("city").get("Berlin"):
            print(key.decode(), row.decode())
        try:
            people["carol"] = '{"city":"Oslo","badge":7}'
        except terrace.Duplicate as refused:
            print("refused:", refused)

        # Several changes, all or none, and on the disk when the block ends.
        with db.batch(sync=True) as batch:
            batch.put(users, "dave", "Quito")
            batch.delete(users, "bob")

        # Several reads and writes as one, again when others were faster.
        def invite(t: terrace.Transaction) -> int:
            before = terrace.unpack_int(t.get(users, "guests", terrace.pack_int(0)))
            t.put(users, "guests", terrace.pack_int(before + 1))
            t.put(users, f"guest {before + 1}", "Paris")
            return before + 1

        print("guest number", db.transaction(invite))

        # Everything of one instant, to be read while others write.
        with db.snapshot() as then:
            users["later"] = "yes"
            print("in the snapshot:", "later" in then["users"])

        # Objects instead of bytes.
        settings = db.tree("settings", codec=terrace.json)
        settings["colours"] = {"page": "dark", "numbers": [1, 2, 3]}
        print(settings["colours"]["numbers"])

        # Where the memory goes.
        memory = db.stats().memory
        print(f"{memory.limit - memory.unused} of {memory.limit} bytes are in use")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        main(made)
