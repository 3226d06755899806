package org.terrace;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.terrace.Folder.b;
import static org.terrace.Folder.s;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Set;
import java.util.function.LongSupplier;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** What each kind of structure does, and that it is there when the database is opened again. */
class StructuresTest {
    private final Folder folder = new Folder();
    private Database db = folder.open();

    @AfterEach
    void end() {
        db.close();
        folder.close();
    }

    private void again() {
        db.close();
        db = folder.open();
    }

    static List<String> all(Cursor cursor) {
        List<String> all = new ArrayList<>();
        try (cursor) {
            while (cursor.next()) {
                all.add(s(cursor.key()) + "=" + s(cursor.value()));
            }
        }
        return all;
    }

    @Test
    void aRecordOfEveryKindIsThereAgain() {
        for (Structure structure : List.of(db.tree("tree"), db.hash("hash"), db.lsm("lsm"), db.table("table"))) {
            assertTrue(structure.isEmpty());
            structure.put(b("a"), b("1"));
            structure.put(b("b"), b(""), Durability.SYNC);
            assertTrue(structure.insert(b("c"), b("3")));
            assertFalse(structure.insert(b("c"), b("4")));
            structure.put(b("d"), b("5"));
            structure.delete(b("d"));
            assertEquals("3", s(structure.remove(b("c"))));
            assertNull(structure.remove(b("c")));
        }
        again();
        assertEquals(Map.of("tree", Kind.TREE, "hash", Kind.HASH, "lsm", Kind.LSM, "table", Kind.TABLE), db.structures());
        for (String name : db.structures().keySet()) {
            Structure structure = db.structure(name);
            assertEquals(name, structure.name());
            assertEquals(name, structure.kind().name().toLowerCase());
            assertEquals("1", s(structure.get(b("a"))));
            assertArrayEquals(new byte[0], structure.get(b("b")));
            assertNull(structure.get(b("c")));
            assertFalse(structure.containsKey(b("d")));
            assertTrue(structure.containsKey(b("b")));
            assertFalse(structure.isEmpty());
            assertEquals(2, structure.estimatedSize());
            List<byte[]> many = structure.getAll(List.of(b("a"), b("x"), b("b")));
            assertEquals("1", s(many.get(0)));
            assertNull(many.get(1));
            assertEquals("", s(many.get(2)));
            assertEquals(2, structure.stream().count());
        }
        db.rename("tree", "oak");
        assertEquals("1", s(db.tree("oak").get(b("a"))));
        db.drop("oak");
        assertFalse(db.structures().containsKey("oak"));
    }

    private static void isGivenBack(LongSupplier lost) throws InterruptedException {
        Set<Integer> places = new HashSet<>();
        // The half of a handle that says where it is names another one as soon as the collector was there.
        for (int i = 0; places.add((int) lost.getAsLong()); i++) {
            assertTrue(i < 1000, "no handle is given back");
            if (i % 10 == 9) {
                System.gc();
                Thread.sleep(1);
            }
        }
    }

    @Test
    void whatIsLostIsGivenBack() throws Exception {
        Table table = db.table("table", Map.of("index", "bytes:0..1"));
        table.put(b("a"), b("1"));
        WriteBatch batch = db.batch().put(db.tree("tree"), b("a"), b("1"));
        try (Snapshot snapshot = db.snapshot()) {
            isGivenBack(() -> db.tree("tree").handle);
            isGivenBack(() -> table.index("index").handle);
            isGivenBack(() -> snapshot.structure("table").handle);
        }
        // What is in a batch is not lost.
        db.write(batch);
        assertEquals("1", s(db.tree("tree").get(b("a"))));
        assertEquals(List.of("a=1"), all(table.index("index").get(b("1"))));
    }

    @Test
    void mapsAreReadInPiecesAndHoldNothingBetween() {
        Tree tree = db.tree("tree");
        NavigableMap<byte[], byte[]> map = tree.asMap();
        for (int i = 0; i < 3000; i++) {
            tree.put(b(String.format("%04d", i)), b("v" + i));
        }
        boolean same = false;
        for (int i = 0; i < 100 && !same; i++) {
            Cursor before = tree.all();
            before.close();
            var left = map.entrySet().iterator();
            assertEquals("v0", s(left.next().getValue()));
            // The place of a handle is free again, unless the collector came between.
            try (Cursor behind = tree.all()) {
                same = (int) behind.handle == (int) before.handle;
            }
            assertEquals("v1", s(left.next().getValue()));
        }
        assertTrue(same, "an iterator that is left keeps a cursor");
        int at = 0;
        for (byte[] key : map.keySet()) {
            assertEquals(String.format("%04d", at++), s(key));
        }
        for (byte[] value : map.descendingMap().values()) {
            assertEquals("v" + --at, s(value));
        }
        assertEquals(0, at);
        assertTrue(map.containsValue(b("v2999")) && map.values().contains(b("v0")));
        assertFalse(map.containsValue(b("v3000")) || map.containsValue(null));
        var odd = map.headMap(b("1000")).entrySet().iterator();
        while (odd.hasNext()) {
            if (Integer.parseInt(s(odd.next().getKey())) % 2 == 1) {
                odd.remove();
            }
        }
        assertEquals(2500, map.size());
    }

    @Test
    void aValueGoesIntoAGivenArray() {
        Tree tree = db.tree("t");
        tree.put(b("k"), b("value"));
        byte[] into = new byte[8];
        assertEquals(5, tree.get(b("k"), into));
        assertEquals("value", s(into).substring(0, 5));
        byte[] small = new byte[3];
        assertEquals(5, tree.get(b("k"), small));
        assertEquals("val", s(small));
        assertEquals(-1, tree.get(b("x"), small));
    }

    @Test
    void rangesGoBothWays() {
        for (String kind : List.of("tree", "lsm", "table")) {
            OrderedRecords records = kind.equals("tree") ? db.tree(kind) : kind.equals("lsm") ? db.lsm(kind) : db.table(kind);
            for (String key : List.of("a", "ab", "b", "ba", "c")) {
                ((Structure) records).put(b(key), b(key));
            }
            assertEquals(List.of("ab=ab", "b=b", "ba=ba"), all(records.range(b("ab"), b("c"))));
            assertEquals(List.of("ba=ba", "b=b", "ab=ab"), all(records.rangeDescending(b("ab"), b("c"))));
            assertEquals(List.of("b=b", "ba=ba"), all(records.prefix(b("b"))));
            assertEquals(List.of("ba=ba", "b=b"), all(records.prefixDescending(b("b"))));
            assertEquals(List.of("c=c"), all(records.range(b("c"), null)));
            assertEquals(List.of("a=a"), all(records.range(null, b("ab"))));
            assertEquals(List.of(), all(records.range(b("x"), b("a"))));
            assertEquals("a", s(records.first().getKey()));
            assertEquals("c", s(records.last().getKey()));
            assertEquals("a ab b ba c",
                records.stream(null, null).map(e -> s(e.getKey())).collect(Collectors.joining(" ")));
        }
    }

    @Test
    void windowsOfACursorJoinWithoutASeam() {
        Tree tree = db.tree("t");
        try (Loader loader = tree.loader()) {
            for (int i = 0; i < 20_000; i++) {
                loader.put(Numbers.encode(i), new byte[i % 300]);
            }
            assertEquals(20_000, loader.finish());
        }
        tree.put(Numbers.encode(10_000), new byte[3 << 20]);
        byte[] key = new byte[8];
        byte[] value = new byte[16];
        for (boolean down : new boolean[] {false, true}) {
            try (Cursor cursor = down ? tree.rangeDescending(null, null) : tree.all()) {
                for (int i = 0; i < 20_000; i++) {
                    int at = down ? 19_999 - i : i;
                    assertTrue(cursor.next());
                    assertEquals(8, cursor.key(key));
                    assertEquals(at, Numbers.decode(key));
                    assertEquals(at == 10_000 ? 3 << 20 : at % 300, cursor.value(value));
                }
                assertFalse(cursor.next());
                assertFalse(cursor.next());
            }
        }
    }

    @Test
    void aBatchIsMadeWhole() {
        Tree tree = db.tree("t");
        Hash hash = db.hash("h");
        tree.put(b("old"), b("1"));
        try (WriteBatch batch = db.batch()) {
            for (int i = 0; i < 1000; i++) {
                batch.put(i % 2 == 0 ? tree : hash, b("k" + i), new byte[i]);
            }
            batch.delete(tree, b("old"));
            assertEquals(1001, batch.size());
            db.write(batch, Durability.SYNC);
            batch.clear();
            assertEquals(0, batch.size());
            db.write(batch);
            batch.put(tree, b("again"), b("2"));
            db.write(batch);
        }
        assertNull(tree.get(b("old")));
        assertEquals("2", s(tree.get(b("again"))));
        assertEquals(998, tree.get(b("k998")).length);
        assertEquals(999, hash.get(b("k999")).length);
        // One that does not fit keeps all others out.
        try (WriteBatch batch = db.batch()) {
            batch.put(tree, b("half"), b("1")).put(tree, new byte[10_000], b("1"));
            var e = assertThrows(TerraceException.class, () -> db.write(batch));
            assertEquals(TerraceException.Kind.KEY_TOO_LONG, e.kind());
        }
        assertNull(tree.get(b("half")));
    }

    @Test
    void mergesChangeInPlace() {
        Hash hash = db.hash("h");
        assertTrue(hash.merge(b("n"), Merge.add(5)));
        hash.merge(b("n"), Merge.add(-8), Durability.SYNC);
        assertEquals(-3, Numbers.decode(hash.get(b("n"))));
        hash.merge(b("u"), Merge.addUnsigned(7));
        assertEquals(7, Numbers.decodeUnsigned(hash.get(b("u"))));
        hash.put(b("m"), b("mm"));
        hash.merge(b("m"), Merge.min(b("ma")));
        assertEquals("ma", s(hash.get(b("m"))));
        hash.merge(b("m"), Merge.max(b("mz")));
        assertEquals("mz", s(hash.get(b("m"))));
        hash.merge(b("m"), Merge.append(b("!"), 10));
        assertEquals("mz!", s(hash.get(b("m"))));
        assertFalse(hash.merge(b("m"), Merge.setIfAbsent(b("x"))));
        assertTrue(hash.compareAndSet(b("m"), b("mz!"), null));
        assertFalse(hash.compareAndSet(b("m"), b("mz!"), b("y")));
        assertTrue(hash.compareAndSet(b("m"), null, b("y")));
        assertEquals("yy", s(hash.update(b("m"), old -> b(s(old) + s(old)))));
        assertNull(hash.update(b("m"), old -> null));
        assertNull(hash.get(b("m")));
        assertThrows(IllegalStateException.class, () -> hash.update(b("n"), old -> {
            throw new IllegalStateException("mine");
        }));
        assertEquals(-3, Numbers.decode(hash.get(b("n"))));
        var wrong = assertThrows(TerraceException.class, () -> hash.merge(b("n2"), Merge.append(b("long"), 2)));
        assertEquals(TerraceException.Kind.INVALID, wrong.kind());
    }

    @Test
    void transactionsAreOneInstant() throws Exception {
        Tree accounts = db.tree("accounts");
        accounts.put(b("a"), Numbers.encode(100));
        accounts.put(b("b"), Numbers.encode(0));
        long left = db.transaction(t -> {
            long a = Numbers.decode(t.get(accounts, b("a"))) - 30;
            t.put(accounts, b("a"), Numbers.encode(a));
            t.put(accounts, b("b"), Numbers.encode(Numbers.decode(t.get(accounts, b("b"))) + 30));
            try (Cursor both = t.range(accounts, null, null)) {
                long sum = 0;
                while (both.next()) {
                    sum += Numbers.decode(both.value());
                }
                assertEquals(100, sum);
            }
            return a;
        });
        assertEquals(70, left);
        assertEquals(30, Numbers.decode(accounts.get(b("b"))));
        // What is thrown comes out as it is, and nothing is written.
        Exception mine = new java.io.IOException("mine");
        Exception thrown = assertThrows(java.io.IOException.class, () -> db.transaction(t -> {
            t.delete(accounts, b("a"));
            throw mine;
        }));
        assertEquals(mine, thrown);
        assertEquals(70, Numbers.decode(accounts.get(b("a"))));
        assertEquals(100L, db.<Long, RuntimeException>read(
            t -> Numbers.decode(t.get(accounts, b("a"))) + Numbers.decode(t.get(accounts, b("b")))));
        assertThrows(TerraceException.class, () -> db.read(t -> {
            t.put(accounts, b("a"), b("x"));
            return null;
        }));
        // Somebody else is faster, each time.
        int[] runs = {0};
        var conflict = assertThrows(TerraceException.class, () -> db.transaction(null, 3, t -> {
            runs[0]++;
            t.get(accounts, b("a"));
            accounts.put(b("a"), Numbers.encode(runs[0]));
            t.put(accounts, b("b"), b("x"));
            return null;
        }));
        assertEquals(TerraceException.Kind.CONFLICT, conflict.kind());
        assertEquals(3, runs[0]);
        // A transaction that has ended is closed.
        Transaction[] kept = new Transaction[1];
        db.transaction(t -> kept[0] = t);
        var closed = assertThrows(TerraceException.class, () -> kept[0].get(accounts, b("a")));
        assertEquals(TerraceException.Kind.CLOSED, closed.kind());
    }

    @Test
    void tablesHaveIndexes() {
        Table people = db.table("people", Map.of("city", "json:/city", "mail", "unique:json:/mail"));
        people.put(b("1"), b("{\"city\":\"Rome\",\"mail\":\"a\"}"));
        people.put(b("2"), b("{\"city\":\"Oslo\",\"mail\":\"b\"}"));
        people.put(b("3"), b("{\"city\":\"Rome\",\"mail\":\"c\"}"));
        assertEquals(Map.of("city", "json:/city", "mail", "unique:json:/mail"), people.indexes());
        Index city = people.index("city");
        try (Cursor rows = city.get(b("Rome"))) {
            assertTrue(rows.next());
            assertEquals("1", s(rows.key()));
            assertTrue(rows.next());
            assertEquals("3", s(rows.key()));
            assertFalse(rows.next());
        }
        assertEquals(3, all(city.range(null, null)).size());
        assertEquals(1, all(city.prefix(b("Os"))).size());
        assertTrue(all(city.rangeDescending(null, null)).get(0).startsWith("3="));
        var twice = assertThrows(TerraceException.class, () -> people.put(b("4"), b("{\"mail\":\"a\"}")));
        assertEquals(TerraceException.Kind.DUPLICATE, twice.kind());
        people.dropIndex("mail");
        people.createIndex("part", "bytes:0..2");
        assertEquals(Map.of("city", "json:/city", "part", "bytes:0..2"), db.table("people").indexes());
        int rome = db.transaction(t -> all(t.indexRange(people, "city", b("Rome"), b("Rome\0"))).size());
        assertEquals(2, rome);
    }

    @Test
    void snapshotsStayAsTheyWere() {
        Tree tree = db.tree("t");
        tree.put(b("a"), b("1"));
        try (Snapshot snapshot = db.snapshot()) {
            tree.put(b("a"), b("2"));
            tree.put(b("b"), b("2"));
            Snapshot.Of then = snapshot.structure("t");
            assertEquals("1", s(then.get(b("a"))));
            assertEquals(1, then.asMap().size());
            assertEquals(List.of("t"), snapshot.names());
            assertTrue(snapshot.time().toEpochMilli() > 0);
            assertTrue(snapshot.sequence() > 0);
            assertEquals(List.of(), snapshot.verify());
            assertThrows(UnsupportedOperationException.class, () -> then.asMap().put(b("x"), b("y")));
            var none = assertThrows(TerraceException.class, () -> snapshot.structure("none"));
            assertEquals(TerraceException.Kind.NO_SUCH_STRUCTURE, none.kind());
        }
        try (Snapshot old = db.snapshot(Duration.ofHours(1))) {
            assertEquals("1", s(old.structure("t").get(b("a"))));
        }
    }

    @Test
    void backupsAreRestored() {
        Tree tree = db.tree("t");
        tree.put(b("a"), b("1"));
        var set = folder.path.resolve("set");
        assertTrue(db.backup(set, true, Long.MAX_VALUE).startsWith("{"));
        tree.put(b("a"), b("2"));
        assertTrue(db.mark("here") > 0);
        assertTrue(Terrace.listBackup(set).contains("\"point\":1"), Terrace.listBackup(set));
        assertTrue(Terrace.verifyBackup(set).startsWith("{"));
        var to = folder.path.resolve("restored");
        assertTrue(Terrace.restore(set, to).startsWith("{"));
        try (Database restored = Terrace.openReadOnly(to, Options.memory("16MiB"))) {
            assertEquals("1", s(restored.tree("t").get(b("a"))));
            assertThrows(TerraceException.class, () -> restored.tree("t").put(b("a"), b("3")));
        }
    }

    @Test
    void figuresAreThere() {
        db.tree("t").put(b("a"), b("1"));
        db.sync();
        db.checkpoint();
        assertEquals(List.of(), db.verify());
        assertTrue(db.stats().startsWith("{"));
        assertTrue(db.survey().contains("\"t\""));
        assertTrue(db.metrics().contains("# TYPE terrace_"), db.metrics());
        assertTrue(db.compact(Long.MAX_VALUE).startsWith("{"));
    }
}
