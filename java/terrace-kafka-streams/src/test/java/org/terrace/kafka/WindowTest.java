package org.terrace.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.terrace.kafka.CommitTest.b;
import static org.terrace.kafka.CommitTest.k;
import static org.terrace.kafka.CommitTest.s;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.terrace.Cursor;
import org.terrace.Database;
import org.terrace.TerraceException;
import org.terrace.Tree;

/** What stores of windows and sessions forget, and when. */
class WindowTest {
    private static final TopicPartition CHANGELOG = new TopicPartition("test-w-changelog", 1);
    private static final long KEPT = 120_000;
    private static final long SIZE = 10_000;

    private static final WindowKeys KEYS = new WindowKeys(false);

    private Path application;
    private TestContext context;
    private WindowRecords store;

    @BeforeEach
    void begin() throws Exception {
        application = Files.createTempDirectory("terrace-windows");
        context = new TestContext(application);
        store = open();
    }

    private WindowRecords open() {
        WindowRecords store = new WindowRecords("w", KEPT, SIZE, false, false);
        store.init(context, store);
        return store;
    }

    private void reopen() {
        store.close();
        store = open();
    }

    @AfterEach
    void end() {
        store.close();
        Engine.closeIdle();
        CommitTest.delete(application);
    }

    private List<String> segments() {
        return store.engine.db.structures().keySet().stream().filter(name -> name.startsWith("0_1/w@")).sorted()
            .collect(Collectors.toList());
    }

    private static List<String> all(KeyValueIterator<Windowed<Bytes>, byte[]> iterator) {
        List<String> all = new ArrayList<>();
        try (iterator) {
            while (iterator.hasNext()) {
                KeyValue<Windowed<Bytes>, byte[]> next = iterator.next();
                all.add(s(next.key.key().get()) + "@" + next.key.window().start() + "=" + s(next.value));
            }
        }
        return all;
    }

    @Test
    void whatExpiresIsDroppedWholeBehindTheCommit() {
        store.put(k("a"), b("1"), 1000);
        store.put(k("a"), b("2"), 70_000);
        store.commit(Map.of(CHANGELOG, 1L));
        assertEquals(List.of("0_1/w@0", "0_1/w@1"), segments());
        store.put(k("a"), b("3"), 185_000);
        assertEquals(List.of("a@70000=2", "a@185000=3"), all(store.all()));
        // The time has not been committed, so nothing is gone yet.
        assertEquals(List.of("0_1/w@0", "0_1/w@1"), segments());
        reopen();
        assertEquals(List.of("a@1000=1", "a@70000=2"), all(store.all()));
        store.put(k("a"), b("3"), 185_000);
        store.commit(Map.of(CHANGELOG, 2L));
        assertEquals(List.of("0_1/w@1", "0_1/w@3"), segments());
        // Time goes on where it was: what was too late stays so.
        reopen();
        store.put(k("a"), b("4"), 1000);
        assertEquals(0, store.approximateNumUncommittedBytes());
        assertNull(store.fetch(k("a"), 1000));
        assertEquals(List.of("a@70000=2", "a@185000=3"), all(store.all()));
        assertEquals("2", s(store.fetch(k("a"), 70_000)));
    }

    @Test
    void windowsInSegmentsOfAnotherLengthAreMadeAnew() {
        store.put(k("a"), b("1"), 70_000);
        store.commit(Map.of(CHANGELOG, 1L));
        store.close();
        // The segments are as long.
        store = new WindowRecords("w", KEPT + 1, SIZE, false, false);
        store.init(context, store);
        assertEquals("1", s(store.fetch(k("a"), 70_000)));
        store.close();
        store = new WindowRecords("w", KEPT * 10, SIZE, false, false);
        store.init(context, store);
        assertNull(store.committedOffset(CHANGELOG));
        assertEquals(List.of(), segments());
        assertNull(store.fetch(k("a"), 70_000));
        context.restore(List.of(KeyValue.pair(KEYS.of(b("a"), 70_000, 0).get(), b("1"))));
        assertEquals("1", s(store.fetch(k("a"), 70_000)));
        // Nor are those by key read as those by time.
        store.commit(Map.of(CHANGELOG, 1L));
        store.close();
        store = new WindowRecords("w", KEPT * 10, SIZE, false, true);
        store.init(context, store);
        assertNull(store.committedOffset(CHANGELOG));
        assertEquals(List.of(), all(store.all()));
    }

    @Test
    void whatClosesIsToldWhereTimeJumpsAndCommitsFallBetween() {
        WindowRecords windows = new WindowRecords("t", KEPT, SIZE, false, true);
        windows.init(context, windows);
        SessionRecords sessions = new SessionRecords("e", KEPT);
        sessions.init(context, sessions);
        Windowed<Bytes> session = new Windowed<>(k("a"), new SessionWindow(500, 1000));
        // Streams asks with the first record, and then about each second.
        assertEquals(List.of(), all(windows.fetchAll(0, 0)));
        assertEquals(List.of(), all(sessions.findSessions(0, 0)));
        windows.put(k("a"), b("1"), 1000);
        sessions.put(session, b("1"));
        for (long jump : new long[] {10_000_000, 10_000_001}) {
            windows.put(k("b"), b("2"), jump);
            sessions.put(new Windowed<>(k("b"), new SessionWindow(jump, jump)), b("2"));
            windows.commit(Map.of(CHANGELOG, jump));
            sessions.commit(Map.of(CHANGELOG, jump));
        }
        assertEquals(List.of("a@1000=1"), all(windows.fetchAll(0, 9_000_000)));
        assertEquals(List.of("a@500=1"), all(sessions.findSessions(0, 9_000_000)));
        // Who updates it does not see it any more.
        assertNull(windows.fetch(k("a"), 1000));
        assertEquals(List.of(), all(sessions.findSessions(k("a"), 0, 2000)));
        windows.put(k("b"), b("3"), 10_000_002);
        sessions.put(new Windowed<>(k("b"), new SessionWindow(10_000_002, 10_000_002)), b("3"));
        windows.commit(Map.of(CHANGELOG, 3L));
        sessions.commit(Map.of(CHANGELOG, 3L));
        assertEquals(List.of(), all(windows.fetchAll(0, 9_000_000)));
        assertEquals(List.of(), all(sessions.findSessions(0, 9_000_000)));
        // Nor is anything kept for who does not ask any more.
        for (long commit = 0, jump = 20_000_000; commit < 1002; commit++, jump++) {
            windows.put(k("c"), b("4"), jump);
            windows.commit(Map.of(CHANGELOG, commit));
            assertEquals(commit < 1000 ? 2 : 1, windows.parts().size());
        }
        windows.close();
        sessions.close();
    }

    @Test
    void aSegmentThatIsDroppedWhileAnIteratorComesToItIsEmpty() {
        store.put(k("a"), b("1"), 1000);
        store.put(k("a"), b("2"), 70_000);
        store.commit(Map.of(CHANGELOG, 1L));
        Database db = store.engine.db;
        KeyValueIterator<Windowed<Bytes>, byte[]> begun = store.backwardAll();
        // Just when its range was begun, and is read for the first time.
        Records<Bytes, byte[]> records = new Records<>(store, store.parts(), part -> {
            if (db.structures().containsKey("0_1/w@0")) {
                db.drop("0_1/w@0");
                throw assertThrows(TerraceException.class, () -> db.structure("0_1/w@0"));
            }
            return part.range(null, null, false, false);
        }, KeyValue::pair);
        assertEquals("2", s(records.next().value));
        assertTrue(!records.hasNext());
        records.close();
        assertEquals(List.of("a@70000=2"), all(store.all()));
        assertEquals(List.of("a@70000=2"), all(begun));
    }

    @Test
    void aRangeThatCannotBeginIsClosed() {
        Database db = store.engine.db;
        Tree gone = db.tree("gone");
        gone.put(new byte[] {1}, new byte[] {1});
        Cursor cursor = gone.all();
        db.drop("gone");
        assertThrows(TerraceException.class, () -> new Merged(Collections.emptyIterator(), cursor, false));
        assertEquals(TerraceException.Kind.CLOSED, assertThrows(TerraceException.class, cursor::next).kind());
    }

    @Test
    void iteratorsOutliveASegment() {
        for (int i = 0; i < 3000; i++) {
            store.put(k("k" + i), new byte[100], 1000 + i % 2 * 60_000);
        }
        store.commit(Map.of(CHANGELOG, 1L));
        KeyValueIterator<Windowed<Bytes>, byte[]> begun = store.all();
        assertTrue(begun.hasNext());
        begun.next();
        store.put(k("a"), b("1"), 1_000_000);
        store.commit(Map.of(CHANGELOG, 2L));
        assertEquals(1, segments().size());
        while (begun.hasNext()) {
            begun.next();
        }
        begun.close();
        assertEquals(List.of("a@1000000=1"), all(store.all()));
    }

    @Test
    void whatIsRestoredIsAsInTheChangelog() {
        List<KeyValue<byte[], byte[]>> records = new ArrayList<>();
        for (int i = 0; i < 1000; i++) {
            byte[] key = KEYS.of(b("k" + i % 10), i * 1000L, 0).get();
            records.add(KeyValue.pair(key, i % 3 == 0 ? null : b("" + i)));
        }
        context.restore(records);
        store.commit(Map.of(CHANGELOG, 999L));
        reopen();
        assertEquals(80, all(store.all()).size());
        assertEquals("998", s(store.fetch(k("k8"), 998_000)));
        assertNull(store.fetch(k("k9"), 999_000));
        assertEquals(999L, store.committedOffset(CHANGELOG));
    }

    @Test
    void storesByTimeAnswerAsThoseByKey() {
        WindowRecords byTime = new WindowRecords("t", KEPT, SIZE, false, true);
        byTime.init(context, byTime);
        List<KeyValue<byte[], byte[]>> logged = new ArrayList<>();
        for (int i = 0; i < 100; i++) {
            logged.add(KeyValue.pair(KEYS.of(b("k" + i % 7), i * 1000L, 0).get(), b("" + i)));
        }
        context.restore(logged);
        for (int i = 100; i < 200; i++) {
            store.put(k("k" + i % 7), b("" + i), i * 1000L);
            byTime.put(k("k" + i % 7), b("" + i), i * 1000L);
        }
        byTime.commit(Map.of(CHANGELOG, 1L));
        List<String> found = all(byTime.fetchAll(110_000, 150_000));
        List<String> expected = all(store.fetchAll(110_000, 150_000));
        found.sort(null);
        expected.sort(null);
        assertEquals(expected, found);
        assertEquals(all(store.fetch(k("k3"), k("k3"), 110_000, 150_000)), all(byTime.fetch(k("k3"), k("k3"), 110_000, 150_000)));
        try (var one = byTime.fetch(k("k3"), 80_000, 130_000)) {
            assertEquals(80_000L, one.next().key);
        }
        assertEquals("150", s(byTime.fetch(k("k3"), 150_000)));
        byTime.close();
    }

    @Test
    void queriesMayAskForWhatIsCommitted() {
        store.put(k("a"), b("1"), 1000);
        store.commit(Map.of(CHANGELOG, 1L));
        store.put(k("a"), b("2"), 1000);
        store.put(k("b"), b("2"), 1000);
        var committed = store.readOnly(IsolationLevel.READ_COMMITTED);
        assertEquals("1", s(committed.fetch(k("a"), 1000)));
        assertEquals(List.of("a@1000=1"), all(committed.all()));
        assertEquals(List.of("a@1000=2", "b@1000=2"), all(store.readOnly(IsolationLevel.READ_UNCOMMITTED).all()));
    }

    @Test
    void keysOfEveryLengthHaveTheirOwnWindows() {
        // The time of the shorter one looks as the end of the longer one.
        Bytes longer = Bytes.wrap(KEYS.of(b("a"), 5000, 0).get());
        store.put(k("a"), b("1"), 5000);
        store.put(longer, b("2"), 5000);
        store.put(Bytes.wrap(new byte[] {'a', 0, 0}), b("3"), 5000);
        for (boolean committed : new boolean[] {false, true}) {
            try (var one = store.fetch(k("a"), 0, 10_000)) {
                assertEquals("1", s(one.next().value));
                assertTrue(!one.hasNext());
            }
            assertEquals(3, all(store.fetch(k("a"), longer, 0, 10_000)).size());
            assertEquals(2, all(store.fetch(k("a"), Bytes.wrap(new byte[] {'a', 0, 0}), 0, 10_000)).size());
            if (!committed) {
                store.commit(Map.of(CHANGELOG, 1L));
            }
        }
        assertThrows(ProcessorStateException.class, () -> store.put(Bytes.wrap(new byte[4096]), b("1"), 1000));
    }
}
