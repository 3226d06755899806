"""Any sequence of calls answers as a dictionary does; ordered structures also as a sorted one."""

import shutil
import tempfile

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import terrace

keys = st.binary(max_size=3) | st.sampled_from([b"", b"a", b"ab", b"b" * 1000])
values = st.binary(max_size=40) | st.sampled_from([b"x" * 20_000])


class Model(RuleBasedStateMachine):
    @initialize(kind=st.sampled_from(["tree", "hash", "table", "lsm"]), tiers=st.sampled_from([1, 2]))
    def begin(self, kind, tiers):
        self.folder = tempfile.mkdtemp()
        self.kind, self.tiers = kind, tiers
        self.open()
        self.model = {}

    def open(self):
        self.db = terrace.open(self.folder, memory="16MiB")
        self.map = getattr(self.db, self.kind)("m", tiers=self.tiers)

    def teardown(self):
        if hasattr(self, "db"):
            self.db.close()
            shutil.rmtree(self.folder)

    @rule(key=keys, value=values)
    def put(self, key, value):
        self.map[key] = value
        self.model[key] = value

    @rule(key=keys)
    def delete(self, key):
        try:
            del self.map[key]
            there = True
        except KeyError:
            there = False
        assert there == (key in self.model)
        self.model.pop(key, None)

    @rule(key=keys, value=values)
    def insert(self, key, value):
        assert self.map.insert(key, value) == (key not in self.model)
        self.model.setdefault(key, value)

    @rule(key=keys, value=values)
    def setdefault(self, key, value):
        assert self.map.setdefault(key, value) == self.model.setdefault(key, value)

    @rule(key=keys)
    def pop(self, key):
        assert self.map.pop(key, None) == self.model.pop(key, None)

    @rule(key=keys, more=st.binary(max_size=5), gone=st.booleans())
    def change(self, key, more, gone):
        assert self.map.update(key, lambda old: None if gone else (old or b"") + more) == (key in self.model)
        if gone:
            self.model.pop(key, None)
        else:
            self.model[key] = self.model.get(key, b"") + more

    @rule(records=st.dictionaries(keys, values, max_size=5))
    def update(self, records):
        self.map.update(records)
        self.model.update(records)

    @rule(changes=st.lists(st.tuples(keys, st.none() | values), max_size=5))
    def batch(self, changes):
        with self.db.batch() as batch:
            for key, value in changes:
                if value is None:
                    batch.delete(self.map, key)
                    self.model.pop(key, None)
                else:
                    batch.put(self.map, key, value)
                    self.model[key] = value

    @rule()
    def popitem(self):
        if self.model:
            key, value = self.map.popitem()
            assert self.model.pop(key) == value
            if self.kind != "hash":
                assert all(key > other for other in self.model)

    @rule(wanted=st.lists(keys, max_size=4))
    def get_many(self, wanted):
        assert self.map.get_many(wanted) == [self.model.get(key) for key in wanted]

    @rule(low=st.none() | keys, high=st.none() | keys, reverse=st.booleans())
    def range(self, low, high, reverse):
        if self.kind != "hash":
            expected = sorted(
                (key, value)
                for key, value in self.model.items()
                if (low is None or low <= key) and (high is None or key < high)
            )
            found = list(self.map.range(low, high, reverse=reverse))
            assert found == (expected[::-1] if reverse else expected)

    @rule(prefix=st.binary(max_size=1))
    def prefix(self, prefix):
        if self.kind != "hash":
            expected = sorted(item for item in self.model.items() if item[0].startswith(prefix))
            assert list(self.map.prefix(prefix)) == expected

    @rule()
    def reopen(self):
        self.db.close()
        self.open()

    @rule()
    def checkpoint(self):
        self.db.checkpoint()

    @invariant()
    def same(self):
        if hasattr(self, "model"):
            found = dict(self.map.items())
            assert found == self.model
            assert bool(self.map) == bool(self.model)


TestModel = Model.TestCase
TestModel.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, derandomize=True,
    suppress_health_check=list(HealthCheck),
)
