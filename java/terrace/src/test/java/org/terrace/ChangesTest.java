package org.terrace;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.terrace.Folder.b;
import static org.terrace.Folder.s;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Every commit is told once, in order, also to who comes back; ranges are removed whole. */
class ChangesTest {
    private final Folder folder = new Folder();
    private final Options options = Options.memory("16MiB").keepChanges(1 << 20);
    private Database db = Terrace.open(folder.db(), options);

    @AfterEach
    void end() {
        db.close();
        folder.close();
    }

    private static List<String> lines(Commit commit) {
        List<String> lines = new ArrayList<>();
        for (Change change : commit.changes()) {
            String name = change.op() == Change.Op.MARKED ? change.mark() : change.structure();
            assertEquals(change.op() == Change.Op.MARKED, change.time() != null);
            lines.add(change.op() + " " + name + " " + s(change.key()) + " " + s(change.value()));
        }
        return lines;
    }

    private List<List<String>> upToNow(String place) {
        List<List<String>> all = new ArrayList<>();
        try (Changes changes = db.changes(ChangesOptions.defaults().from(place).untilNow())) {
            for (Commit commit = changes.next(); commit != null; commit = changes.next()) {
                all.add(lines(commit));
            }
            assertTrue(changes.isAtEnd());
            assertNull(changes.next(Duration.ofSeconds(9)));
        }
        return all;
    }

    @Test
    void everyCommitIsToldOnceAlsoAfterARestart() {
        Tree users = db.tree("users");
        users.put(b("before"), b("0"));
        String begun;
        String behindTheFirst;
        List<List<String>> expected = List.of(List.of("PUT users a 1"), List.of("PUT users b ", "DELETE users a null"),
            List.of("CREATED other null null"), List.of("RENAMED new null null"), List.of("DROPPED new null null"),
            List.of("MARKED noon null null"));
        try (Changes changes = db.changesWithSnapshot(ChangesOptions.defaults())) {
            assertNull(changes.next(Duration.ZERO));
            assertFalse(changes.isAtEnd());
            begun = changes.place();
            users.put(b("a"), b("1"));
            try (WriteBatch batch = db.batch()) {
                db.write(batch.put(users, b("b"), b("")).delete(users, b("a")));
            }
            db.hash("other");
            db.rename("other", "new");
            db.drop("new");
            db.mark("noon");
            Commit first = changes.next();
            behindTheFirst = first.place();
            assertEquals(expected.get(0), lines(first));
            assertEquals(Kind.TREE, first.changes().get(0).kind());
            assertTrue(first.toString().contains("put users 1 bytes"), first::toString);
            Commit second = changes.next(Duration.ofMinutes(1));
            assertEquals(expected.get(1), lines(second));
            assertTrue(second.sequence() > first.sequence());
            for (List<String> lines : expected.subList(2, expected.size())) {
                assertEquals(lines, lines(changes.next()));
            }
            assertNotNull(changes.snapshot());
            assertEquals("0", s(changes.snapshot().structure("users").get(b("before"))));
            assertNull(changes.snapshot().structure("users").get(b("b")));
        }
        assertEquals(expected, upToNow(begun));
        db.close();
        db = Terrace.open(folder.db(), options);
        assertEquals(expected.subList(1, expected.size()), upToNow(behindTheFirst));
    }

    @Test
    void whatCannotBeReadIsAnErrorAndAnInterruptEndsTheWait() throws InterruptedException {
        ChangesOptions from = ChangesOptions.defaults();
        assertEquals(TerraceException.Kind.INVALID,
            assertThrows(TerraceException.class, () -> db.changes(from.from("nowhere"))).kind());
        assertEquals(TerraceException.Kind.CHANGES_GONE,
            assertThrows(TerraceException.class, () -> db.changes(from.from("0".repeat(64)))).kind());
        Changes changes = db.changes(from.syncEvery(null));
        TerraceException[] thrown = new TerraceException[1];
        Thread waits = new Thread(() -> thrown[0] = assertThrows(TerraceException.class, changes::next));
        waits.start();
        waits.interrupt();
        waits.join();
        assertEquals(TerraceException.Kind.CANCELLED, thrown[0].kind());
        Thread closed = new Thread(() -> thrown[0] = assertThrows(TerraceException.class, changes::next));
        closed.start();
        db.close();
        closed.join();
        assertEquals(TerraceException.Kind.CLOSED, thrown[0].kind());
        changes.close();
        changes.close();
    }

    @Test
    void recordsAreThereUntilTheirTime() {
        Instant late = Instant.parse("2200-01-01T00:00:00Z");
        Hash sessions = db.hash("sessions", StructureOptions.defaults().expiring());
        try (Changes changes = db.changes()) {
            sessions.putUntil(b("a"), b("1"), late);
            assertEquals(late, changes.next().changes().get(0).time());
        }
        assertEquals(late, sessions.expires(b("a")));
        assertEquals("1", s(sessions.get(b("a"))));
        assertTrue(sessions.expireIn(b("a"), null));
        assertEquals(Instant.MAX, sessions.expires(b("a")));
        assertTrue(sessions.expireAt(b("a"), Instant.EPOCH));
        assertNull(sessions.expires(b("a")));
        assertNull(sessions.get(b("a")));
        assertFalse(sessions.expireIn(b("a"), Duration.ofDays(1)));
        sessions.putFor(b("b"), b("2"), Duration.ofDays(1));
        try (WriteBatch batch = db.batch()) {
            db.write(batch.putUntil(sessions, b("c"), b("3"), late).putUntil(sessions, b("b"), b("3"), Instant.EPOCH)
                .putUntil(sessions, b("d"), b("4"), null));
        }
        assertNull(sessions.get(b("b")));
        assertEquals(late, sessions.expires(b("c")));
        assertEquals(Instant.MAX, sessions.expires(b("d")));
        Tree plain = db.tree("plain");
        assertEquals(TerraceException.Kind.INVALID,
            assertThrows(TerraceException.class, () -> plain.putFor(b("a"), b("1"), Duration.ofDays(1))).kind());
        db.close();
        db = Terrace.open(folder.db(), options);
        assertEquals(late, db.hash("sessions").expires(b("c")));
    }

    @Test
    void whatHasExpiredIsSeenByNobody() throws InterruptedException {
        for (Structure structure : List.of(db.tree("tree", StructureOptions.defaults().expiring()),
                db.lsm("lsm", StructureOptions.defaults().expiring()))) {
            structure.put(b("a"), b("1"));
            structure.putFor(b("b"), b("2"), Duration.ofMillis(20));
            structure.putFor(b("c"), b("3"), Duration.ofSeconds(Long.MAX_VALUE));
            structure.putUntil(b("d"), b("4"), Instant.MIN);
            while (structure.expires(b("b")) != null) {
                Thread.sleep(1);
            }
            for (Cursor cursor : List.of(structure.all(), ((OrderedRecords) structure).rangeDescending(null, null))) {
                try (cursor) {
                    StringBuilder keys = new StringBuilder();
                    while (cursor.next()) {
                        keys.append(s(cursor.key()));
                    }
                    assertTrue(List.of("ac", "ca").contains(keys.toString()), keys.toString());
                }
            }
            assertNull(structure.getAll(List.of(b("b"))).get(0));
            assertFalse(((OrderedRecords) structure).asMap().containsKey(b("b")));
            assertTrue(structure.insert(b("b"), b("5")));
            assertEquals(Instant.MAX, structure.expires(b("b")));
        }
    }

    @Test
    void rangesAreRemovedWhole() {
        for (Structure structure : List.of(db.tree("tree"), db.lsm("lsm"), db.table("table"))) {
            for (int i = 0; i < 3000; i++) {
                structure.put(b(String.format("%04d", i)), b("v"));
            }
            OrderedStructure ordered = (OrderedStructure) structure;
            assertEquals(10, ordered.removeRange(b("0010"), b("0020")));
            assertEquals(2990, structure.stream().count());
            assertEquals(1000, ordered.removePrefix(b("1")));
            assertEquals("v", s(structure.get(b("2000"))));
            ordered.asMap().subMap(b("0100"), false, b("0200"), true).clear();
            assertEquals(1890, structure.stream().count());
            assertEquals("v", s(structure.get(b("0100"))));
            assertNull(structure.get(b("0200")));
            assertEquals(0, ordered.removeRange(b("9"), b("1")));
            assertEquals(1890, ordered.removeRange(null, null, Durability.SYNC));
            assertTrue(structure.isEmpty());
        }
    }
}
