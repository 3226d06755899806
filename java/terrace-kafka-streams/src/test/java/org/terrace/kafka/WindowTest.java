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
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

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
