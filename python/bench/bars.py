"""What the package costs, and how it compares with lmdb-py.

    ./run bench                 all of it, from the wheel in a fresh environment
    ./run bench --records 50000 --rounds 3

Both sides of a ratio take turns within one run, on one thread, in memory of the same size; times are the clock's and
the processor's (all threads), and of some rounds the median is told. Above one is faster than lmdb-py. Where a machine
has other work, the processor's are the better ones.

Data of four times the memory cannot be timed fairly without a limit on what the system caches for lmdb, which a memory
cgroup gives: `--limited` asks `systemd-run --scope` for one. Without it only counts are told: pages that Terrace read,
and those that lmdb would read through a cache of just that memory which drops what was used least recently, with the
inner pages of its tree in it for nothing.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

VALUE = 120
EXPONENT = 0.99


def keys(n: int) -> list[bytes]:
    """Keys of eight bytes, in an order that has nothing to do with how often they are used."""
    return [(i * 0x9E3779B97F4A7C15 % 2**64).to_bytes(8, "big") for i in range(n)]


def zipf(n: int, many: int, seed: int) -> list[int]:
    weights = list(itertools.accumulate((i + 1) ** -EXPONENT for i in range(n)))
    return random.Random(seed).choices(range(n), cum_weights=weights, k=many)


def timed(f: Callable[[], object]) -> tuple[float, float]:
    clock, processor = time.perf_counter(), time.process_time()
    f()
    return time.perf_counter() - clock, time.process_time() - processor


def told(name: str, many: int, rounds: Sequence[tuple[tuple[float, float], tuple[float, float]]]) -> None:
    """A line: what each side does in a second, and how many times as much the first does."""
    (ours, our_cpu), (theirs, their_cpu) = ([statistics.median(x) for x in zip(*side)] for side in zip(*rounds))
    clock = statistics.median(b[0] / a[0] for a, b in rounds)
    processor = statistics.median(b[1] / a[1] for a, b in rounds)
    print(
        f"{name:<52} {many / ours:>10,.0f} {many / theirs:>10,.0f}/s {clock:>6.2f}"
        f"   {our_cpu / many * 1e6:>6.2f} {their_cpu / many * 1e6:>6.2f} us {processor:>6.2f}",
        flush=True,
    )


def package(wheel: str | None) -> None:
    if wheel:
        print(f"wheel: {Path(wheel).stat().st_size / 2**20:.2f} MiB")
    took = []
    for _ in range(15):
        run = [sys.executable, "-X", "importtime", "-c", "import terrace"]
        # From elsewhere: the sources here are not what is installed.
        told = subprocess.run(run, cwd="/", stderr=subprocess.PIPE, text=True, check=True).stderr
        took.append(int(told.strip().splitlines()[-1].split("|")[1]) / 1000)
    print(f"import: {statistics.median(took):.1f} ms ({min(took):.1f} to {max(took):.1f} of {len(took)})")


def update(folder: Path, million: int) -> None:
    import terrace

    data = dict(zip(keys(million), itertools.repeat(b"v" * VALUE)))
    with terrace.open(folder / "update", memory="512MiB") as db:
        tree = db.tree("t")
        clock, processor = timed(lambda: tree.update(data))
    print(
        f"update(dict) of {million:,}: {million / clock:,.0f}/s by the clock, {million / processor:,.0f}/s by the "
        f"processor ({processor:.2f} s)",
        flush=True,
    )


def fits(folder: Path, records: int, rounds: int) -> None:
    import lmdb

    import terrace

    names, value = keys(records), b"v" * VALUE
    data = dict(zip(names, itertools.repeat(value)))
    db = terrace.open(folder / "fits", memory="256MiB")
    tree = db.tree("t")
    env = lmdb.open(str(folder / "fits.lmdb"), map_size=2**32, sync=False)
    tree.update(data)
    with env.begin(write=True) as txn:
        for key in names:
            txn.put(key, value)
    chosen = [names[i] for i in zipf(records, records, 1)]
    for key in chosen:
        assert tree.get(key) == value

    def get_ours() -> None:
        get = tree.get
        for key in chosen:
            get(key)

    def get_each() -> None:
        for key in chosen:
            with env.begin() as txn:
                txn.get(key)

    def get_in_one() -> None:
        with env.begin() as txn:
            get = txn.get
            for key in chosen:
                get(key)

    def get_many_ours() -> None:
        for at in range(0, len(chosen), 1000):
            tree.get_many(chosen[at : at + 1000])

    def get_many_theirs() -> None:
        with env.begin() as txn, txn.cursor() as cursor:
            for at in range(0, len(chosen), 1000):
                cursor.getmulti(chosen[at : at + 1000])

    def put_ours() -> None:
        put = tree.put
        for key in chosen:
            put(key, value)

    def put_each() -> None:
        for key in chosen:
            with env.begin(write=True) as txn:
                txn.put(key, value)

    def put_in_groups_ours() -> None:
        tree.update(itertools.zip_longest(chosen, (), fillvalue=value))

    def put_in_groups() -> None:
        for at in range(0, len(chosen), 10_000):
            with env.begin(write=True) as txn:
                for key in chosen[at : at + 10_000]:
                    txn.put(key, value)

    print(f"\n{records:,} records of 8 + {VALUE} bytes that fit, Zipf {EXPONENT}; Terrace, lmdb-py, ratio by the clock; by the processor")
    for name, ours, theirs in (
        ("get", get_ours, get_each),
        ("get; lmdb: all in one transaction", get_ours, get_in_one),
        ("get_many of 1,000; lmdb: getmulti", get_many_ours, get_many_theirs),
        ("put", put_ours, put_each),
        ("update(pairs); lmdb: 10,000 to a transaction", put_in_groups_ours, put_in_groups),
    ):
        told(name, len(chosen), [(timed(ours), timed(theirs)) for _ in range(rounds)])
    db.close()
    env.close()


def least_recent(pages: Sequence[int], frames: int, counted_from: int) -> int:
    """How many of them a cache of so many does not have."""
    cache: OrderedDict[int, None] = OrderedDict()
    misses = 0
    for n, page in enumerate(pages):
        if page in cache:
            cache.move_to_end(page)
            continue
        misses += n >= counted_from
        cache[page] = None
        if len(cache) > frames:
            cache.popitem(last=False)
    return misses


def side(folder: Path, which: str, memory: int, warm: int, many: int) -> dict[str, Any]:
    """Reads and then writes on one side, after it was warmed up by reads."""
    records = 4 * memory // (8 + VALUE)
    names, value = keys(records), b"v" * VALUE
    use = zipf(records, warm + 2 * many, 2)
    parts = [[names[i] for i in use[:warm]], [names[i] for i in use[warm : warm + many]], [names[i] for i in use[warm + many :]]]
    found: dict[str, Any] = {"records": records}
    if which == "terrace":
        import terrace

        with terrace.open(folder / "cold", memory=memory) as db:
            tree = db.tree("t")
            tree.load(zip(names, itertools.repeat(value)))
            get, put = tree.get, tree.put

            def work(keys: list[bytes], writes: bool) -> None:
                for key in keys:
                    put(key, value) if writes else get(key)
                if writes:
                    # What was put off belongs to it, too.
                    db.checkpoint()

            work(parts[0], False)
            for name, part in (("get", parts[1]), ("put", parts[2])):
                before = db.stats().to_dict()["pages"]
                clock, processor = timed(lambda: work(part, name == "put"))
                after = db.stats().to_dict()["pages"]
                found[name] = {
                    "clock": clock,
                    "processor": processor,
                    "reads": (after["reads"] - before["reads"]) / many,
                    "writes": (after["writes"] - before["writes"]) / many,
                    "page": after["page_bytes"],
                }
        return found
    import lmdb

    env = lmdb.open(str(folder / "cold.lmdb"), map_size=2**34, sync=False, readahead=False)
    for at in range(0, records, 10_000):
        with env.begin(write=True) as txn:
            for key in names[at : at + 10_000]:
                txn.put(key, value)
    with env.begin() as txn:
        for key in parts[0]:
            txn.get(key)

    def reads() -> None:
        for key in parts[1]:
            with env.begin() as txn:
                txn.get(key)

    def writes() -> None:
        for key in parts[2]:
            with env.begin(write=True) as txn:
                txn.put(key, value)

    shape = env.stat()
    rank = {key: n for n, key in enumerate(sorted(names))}
    leaves = [rank[key] * shape["leaf_pages"] // records for part in parts for key in part]
    frames = max(1, memory // shape["psize"] - shape["branch_pages"])
    for name, f, end in (("get", reads, warm + many), ("put", writes, warm + 2 * many)):
        clock, processor = timed(f)
        missed = least_recent(leaves[:end], frames, end - many) / many
        found[name] = {"clock": clock, "processor": processor, "reads": missed, "page": shape["psize"]}
    env.close()
    return found


def cold(folder: Path, memory: int, warm: int, many: int, limited: bool) -> None:
    found = {}
    for which in ("terrace", "lmdb"):
        command = [sys.executable, __file__, "--side", which, "--folder", str(folder)]
        command += ["--memory", str(memory), "--warm", str(warm), "--operations", str(many)]
        if limited:
            # What the interpreter and the lists of keys take comes on top.
            room = memory + 400 * 2**20 if which == "terrace" else memory
            command = ["systemd-run", "--quiet", "--scope", "-p", f"MemoryMax={room}", "-p", "MemorySwapMax=0", *command]
        found[which] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    ours, theirs = found["terrace"], found["lmdb"]
    print(f"\n{ours['records']:,} records, four times the memory of {memory >> 20} MiB, Zipf {EXPONENT}, {warm:,} reads to warm up")
    for name in ("get", "put"):
        a, b = ours[name], theirs[name]
        written = a["writes"] if name == "put" else 0
        print(
            f"{name}: pages for each: Terrace {a['reads']:.3f} read"
            + (f", {written:.3f} written" if name == "put" else "")
            + f", of {a['page'] >> 10} KiB; lmdb {b['reads']:.3f} read"
            + (" (what it writes is not counted)" if name == "put" else "")
            + f", of {b['page'] >> 10} KiB; ratio {b['reads'] / max(a['reads'] + written, 1e-9):.2f}"
        )
        if limited:
            print(f"  by the clock {many / a['clock']:,.0f} and {many / b['clock']:,.0f}/s, ratio {b['clock'] / a['clock']:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--update", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", type=int, default=16 * 2**20, help="of the part with four times as much data")
    parser.add_argument("--warm", type=int, default=2_000_000)
    parser.add_argument("--operations", type=int, default=300_000)
    parser.add_argument("--limited", action="store_true", help="time that part under a limit (needs systemd and root)")
    parser.add_argument("--wheel")
    parser.add_argument("--folder", help="where the databases are made")
    parser.add_argument("--side", choices=["terrace", "lmdb"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        print(json.dumps(side(Path(args.folder), args.side, args.memory, args.warm, args.operations)))
        return
    folder = Path(tempfile.mkdtemp(prefix="terrace-bars-", dir=args.folder))
    try:
        print(f"Python {sys.version.split()[0]}, load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
        package(args.wheel)
        update(folder, args.update)
        fits(folder, args.records, args.rounds)
        cold(folder, args.memory, args.warm, args.operations, args.limited)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
