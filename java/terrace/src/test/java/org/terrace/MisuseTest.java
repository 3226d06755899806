package org.terrace;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.terrace.Folder.b;
import static org.terrace.Folder.s;

import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.terrace.TerraceException.Kind;

/** Whatever one does wrong is an error, never a crash. */
class MisuseTest {
    private final Folder folder = new Folder();
    private final Database db = folder.open();

    @AfterEach
    void end() {
        db.close();
        folder.close();
    }

    private static void fails(Kind kind, Executable call) {
        TerraceException e = assertThrows(TerraceException.class, call);
        assertEquals(kind, e.kind(), e.getMessage());
    }

    @Test
    void kindsAreThoseOfTheNativeSide() {
        Set<String> words = new HashSet<>(Utf8.lines(Native.kinds()));
        Set<String> ours = new HashSet<>();
        for (Kind kind : Kind.values()) {
            ours.add(kind.name().toLowerCase());
        }
        assertEquals(words, ours);
    }

    @Test
    void whatIsClosedSaysSo() {
        Tree tree = db.tree("t");
        tree.put(b("a"), b("1"));
        Cursor cursor = tree.all();
        assertTrue(cursor.next());
        Cursor closed = tree.all();
        closed.close();
        closed.close();
        fails(Kind.CLOSED, closed::next);
        Snapshot snapshot = db.snapshot();
        Snapshot.Of then = snapshot.structure("t");
        snapshot.close();
        snapshot.close();
        fails(Kind.CLOSED, () -> then.get(b("a")));
        fails(Kind.CLOSED, () -> snapshot.structure("t"));
        Loader loader = tree.loader();
        loader.close();
        fails(Kind.CLOSED, loader::finish);
        WriteBatch batch = db.batch().put(tree, b("b"), b("2"));
        Transaction[] kept = new Transaction[1];
        db.transaction(t -> kept[0] = t);
        db.close();
        db.close();
        for (Executable call : List.<Executable>of(() -> tree.get(b("a")), () -> tree.put(b("a"), b("1")), () -> db.tree("t"),
                () -> tree.get(b("a"), new byte[3]), () -> tree.getAll(List.of(b("a"))), tree::all, tree::isEmpty,
                () -> tree.merge(b("a"), Merge.add(1)), () -> db.write(batch), db::snapshot, db::stats, db::verify, db::sync,
                db::checkpoint, db::structures, () -> db.transaction(t -> null), () -> kept[0].put(tree, b("a"), b("1")),
                () -> cursor.next(), tree::loader, () -> db.backup(folder.path.resolve("set")), tree::name, tree::kind,
                () -> tree.asMap().size(), () -> db.drop("t"), () -> tree.insert(b("a"), b("1")), () -> tree.remove(b("a")))) {
            fails(Kind.CLOSED, call);
        }
    }

    @Test
    void handlesOfAnotherDatabaseAreRefused() {
        Tree tree = db.tree("t");
        try (Folder second = new Folder(); Database other = second.open()) {
            Tree theirs = other.tree("t");
            fails(Kind.INVALID, () -> db.write(other.batch()));
            WriteBatch mixed = db.batch().put(tree, b("a"), b("1")).put(theirs, b("a"), b("1"));
            fails(Kind.INVALID, () -> db.write(mixed));
            assertNull(tree.get(b("a")));
            fails(Kind.INVALID, () -> db.transaction(t -> {
                t.put(theirs, b("a"), b("1"));
                return null;
            }));
            assertNull(theirs.get(b("a")));
        }
    }

    @Test
    void numbersThatAreNoHandlesAreRefused() {
        Tree tree = db.tree("t");
        for (long wrong : new long[] {0, 1, -1, Long.MIN_VALUE, 1L << 32, tree.handle + (1L << 32), tree.handle + 1, db.handle}) {
            fails(Kind.CLOSED, () -> Native.get(wrong, b("a"), 1));
            fails(Kind.CLOSED, () -> Native.window(wrong, new byte[16], 16));
            fails(Kind.CLOSED, () -> Native.transactionGet(wrong, tree.handle, b("a"), 1));
        }
        // An index into the list of structures that there is not, lengths that lie.
        byte[] batch = {1, 0, 0, 0, 0, 9, 0, 0, 0, 1, 'a', 1, 'b'};
        fails(Kind.INVALID, () -> Native.write(db.handle, new long[] {tree.handle}, 1, batch, batch.length, -1));
        batch[5] = 0;
        batch[9] = 100;
        fails(Kind.INVALID, () -> Native.write(db.handle, new long[] {tree.handle}, 1, batch, batch.length, -1));
        fails(Kind.INVALID, () -> Native.getAll(tree.handle, new byte[] {5, 0, 0, 0, 1}, 5));
        assertThrows(IndexOutOfBoundsException.class, () -> Native.get(tree.handle, b("a"), 100));
        assertThrows(IndexOutOfBoundsException.class, () -> Native.get(tree.handle, b("a"), 100_000));
        fails(Kind.INVALID, () -> Native.get(tree.handle, b("a"), -1));
        assertThrows(IndexOutOfBoundsException.class,
            () -> Native.write(db.handle, new long[] {tree.handle}, 5, batch, batch.length, -1));
    }

    @Test
    void nullIsANullPointerException() {
        Tree tree = db.tree("t");
        for (Executable call : List.<Executable>of(() -> tree.get(null), () -> tree.put(null, b("a")), () -> tree.put(b("a"), null),
                () -> tree.delete(null), () -> tree.get(b("a"), null), () -> db.tree(null), () -> tree.getAll(null),
                () -> db.batch().put(tree, null, b("a")), () -> db.batch().put(null, b("a"), b("a")), () -> db.write(null),
                () -> tree.merge(b("a"), null), () -> tree.asMap().get(null), () -> Terrace.open(null), () -> db.transaction(null))) {
            assertThrows(NullPointerException.class, call);
        }
    }

    @Test
    void argumentsThatDoNotFit() {
        Tree tree = db.tree("t");
        fails(Kind.KEY_TOO_LONG, () -> tree.put(new byte[5000], b("1")));
        fails(Kind.KEY_TOO_LONG, () -> tree.get(new byte[5000]));
        fails(Kind.INVALID, () -> db.hash("t"));
        fails(Kind.INVALID, () -> db.tree(""));
        fails(Kind.INVALID, () -> db.table("x", Map.of("i", "nonsense")));
        fails(Kind.NO_SUCH_STRUCTURE, () -> db.structure("none"));
        fails(Kind.NO_SUCH_STRUCTURE, () -> db.drop("none"));
        fails(Kind.LOCKED, () -> Terrace.open(folder.db()));
        fails(Kind.MEMORY_TOO_SMALL, () -> Terrace.open(folder.path.resolve("x"), Options.memory(1000)));
        fails(Kind.INVALID, () -> Terrace.open(folder.path.resolve("x"), Options.defaults().pageSize(5)));
        assertThrows(TerraceException.class, () -> Terrace.open(folder.path.resolve("none"), Options.defaults().create(false)));
        assertThrows(IllegalArgumentException.class, () -> Options.memory("much"));
        assertEquals(64 << 20, Options.bytes("64MiB"));
        Cursor cursor = tree.all();
        assertThrows(NoSuchElementException.class, cursor::key);
        cursor.close();
    }

    @Test
    void closeWaitsForThoseInside() throws Exception {
        Tree tree = db.tree("t");
        CountDownLatch inside = new CountDownLatch(4);
        Throwable[] wrong = new Throwable[1];
        Thread[] threads = new Thread[4];
        for (int i = 0; i < threads.length; i++) {
            int n = i;
            threads[i] = new Thread(() -> {
                try {
                    for (int k = 0;; k++) {
                        tree.put(Numbers.encode(k), new byte[100]);
                        try (Cursor cursor = tree.range(Numbers.encode(k / 2), null)) {
                            cursor.next();
                        }
                        if (k == 200) {
                            inside.countDown();
                        }
                    }
                } catch (TerraceException e) {
                    if (e.kind() != Kind.CLOSED) {
                        wrong[0] = e;
                    }
                } catch (Throwable e) {
                    wrong[0] = e;
                }
                inside.countDown();
            }, "inside " + n);
            threads[i].start();
        }
        inside.await();
        db.close();
        for (Thread thread : threads) {
            thread.join();
        }
        assertNull(wrong[0], () -> String.valueOf(wrong[0]));
        try (Database again = folder.open()) {
            assertNotNull(again.tree("t").get(Numbers.encode(200)));
        }
    }

    @Test
    void aTransactionMayCloseTheDatabase() {
        Tree tree = db.tree("t");
        assertThrows(TerraceException.class, () -> db.transaction(t -> {
            t.put(tree, b("a"), b("1"));
            db.close();
            return null;
        }));
        try (Database again = folder.open()) {
            assertNull(again.tree("t").get(b("a")));
        }
    }

    @Test
    void aTransactionWithinAnother() {
        Tree tree = db.tree("t");
        String answer = db.transaction(outer -> {
            outer.put(tree, b("a"), b("1"));
            return db.transaction(inner -> {
                inner.put(tree, b("b"), b("2"));
                return s(inner.get(tree, b("b")));
            });
        });
        assertEquals("2", answer);
        assertEquals("1", s(tree.get(b("a"))));
        // A stack that ends within is an error as any other.
        assertThrows(StackOverflowError.class, () -> db.transaction(t -> deeper(t)));
        assertEquals("1", s(tree.get(b("a"))));
    }

    private static int deeper(Transaction t) {
        return deeper(t) + 1;
    }
}
