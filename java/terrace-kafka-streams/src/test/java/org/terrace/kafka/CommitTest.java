package org.terrace.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Stream;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsMetrics;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.query.KeyQuery;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.query.RangeQuery;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.terrace.Database;
import org.terrace.Options;
import org.terrace.Terrace;

/** Commits, offsets, and what is left of a store after each kind of end. */
class CommitTest {
    private static final TopicPartition CHANGELOG = new TopicPartition("test-s-changelog", 1);
    private static final TopicPartition SECOND = new TopicPartition("test-s-changelog", 2);

    private final Path application = folder();
    private TestContext context = new TestContext(application);
    private KeyValueRecords store = open();

    private static Path folder() {
        try {
            return Files.createTempDirectory("terrace-streams");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private KeyValueRecords open() {
        KeyValueRecords store = new KeyValueRecords("s");
        store.init(context, store);
        return store;
    }

    private void reopen() {
        store.close();
        store = open();
    }

    static void delete(Path path) {
        try (Stream<Path> all = Files.walk(path)) {
            all.sorted(Comparator.reverseOrder()).forEach(one -> one.toFile().delete());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @AfterEach
    void end() {
        store.close();
        Engine.closeIdle();
        delete(application);
    }

    static Bytes k(String key) {
        return Bytes.wrap(b(key));
    }

    static byte[] b(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String s(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }

    static List<String> all(KeyValueIterator<Bytes, byte[]> iterator) {
        List<String> all = new ArrayList<>();
        try (iterator) {
            while (iterator.hasNext()) {
                Bytes peeked = iterator.peekNextKey();
                KeyValue<Bytes, byte[]> next = iterator.next();
                assertEquals(peeked, next.key);
                all.add(s(next.key.get()) + "=" + s(next.value));
            }
        }
        return all;
    }

    private static Map<TopicPartition, Long> at(long offset) {
        return Map.of(CHANGELOG, offset);
    }

    private Path ref() {
        return Engine.folderOf(context.stateDir().toPath(), "s").resolve(Ref.FILE);
    }

    @Test
    void offsetAndDataAreThereTogether() {
        store.put(k("a"), b("1"));
        store.commit(at(7));
        store.put(k("b"), b("2"));
        store.put(k("a"), null);
        assertEquals(7, store.committedOffset(CHANGELOG));
        assertEquals(List.of("b=2"), all(store.all()));
        reopen();
        assertEquals(7, store.committedOffset(CHANGELOG));
        assertEquals(List.of("a=1"), all(store.all()));
        assertNull(store.committedOffset(SECOND));
    }

    @Test
    void commitsThatTakeOffsetsAway() {
        store.put(k("a"), b("1"));
        store.commit(Map.of(CHANGELOG, 7L, SECOND, 8L));
        store.commit(Collections.singletonMap(SECOND, null));
        assertNull(store.committedOffset(SECOND));
        assertEquals(7, store.committedOffset(CHANGELOG));
        store.commit(Map.of());
        assertNull(store.committedOffset(CHANGELOG));
        reopen();
        assertNull(store.committedOffset(CHANGELOG));
        assertEquals("1", s(store.get(k("a"))));
        store.commit(at(-4));
        assertEquals(-4, store.committedOffset(CHANGELOG));
        store.commit(at(-4));
    }

    @Test
    void anEmptyStoreTakesNoOffset() {
        // An old file of Streams says so when a store is registered.
        store.commit(at(41_999));
        assertEquals(Committed.UNKNOWN, store.committedOffset(CHANGELOG));
        reopen();
        assertEquals(Committed.UNKNOWN, store.committedOffset(CHANGELOG));
        store.put(k("a"), b("1"));
        store.commit(at(42_000));
        assertEquals(42_000, store.committedOffset(CHANGELOG));
        // And one that was away for a while keeps its own.
        reopen();
        store.commit(at(60_000));
        assertEquals(42_000, store.committedOffset(CHANGELOG));
        context.restore(List.of(KeyValue.pair(b("b"), b("2"))));
        store.commit(at(50_000));
        assertEquals(50_000, store.committedOffset(CHANGELOG));
    }

    @Test
    void theFolderIsEmptyUntilSomethingIsCommitted() throws Exception {
        assertEquals(0, context.stateDir().list().length);
        store.put(k("a"), b("1"));
        assertEquals(0, context.stateDir().list().length);
        store.commit(at(1));
        assertTrue(Files.exists(ref()));
    }

    @Test
    void aStoreWhoseFolderIsWipedBeginsAnew() {
        store.put(k("a"), b("1"));
        store.commit(at(7));
        store.close();
        delete(context.stateDir().toPath());
        context = new TestContext(application);
        store = open();
        assertNull(store.committedOffset(CHANGELOG));
        assertEquals(List.of(), all(store.all()));
        store.put(k("b"), b("2"));
        store.commit(at(1));
        reopen();
        assertEquals(List.of("b=2"), all(store.all()));
    }

    @Test
    void aFolderOfAnotherLifeIsNotBelieved() throws Exception {
        store.put(k("a"), b("1"));
        store.commit(at(7));
        store.close();
        Files.writeString(ref(), Ref.text(1, 2));
        store = open();
        assertNull(store.committedOffset(CHANGELOG));
        assertEquals(List.of(), all(store.all()));
    }

    @Test
    void anEngineWhoseFilesAreGoneIsNotUsedAgain() {
        store.put(k("a"), b("1"));
        store.commit(at(7));
        store.close();
        // It lingers.
        delete(application);
        context = new TestContext(application);
        store = open();
        assertEquals(List.of(), all(store.all()));
        store.put(k("b"), b("2"));
        store.commit(at(1));
        store.close();
        Engine.closeIdle();
        store = open();
        assertEquals(List.of("b=2"), all(store.all()));
        assertEquals(1, store.committedOffset(CHANGELOG));
    }

    @Test
    void whatIsTooMuchIsWrittenBeforeTheCommit() {
        context.with(Settings.STAGED, "10k");
        reopen();
        for (int i = 0; i < 100; i++) {
            store.put(k("k" + i), new byte[1000]);
            assertTrue(store.approximateNumUncommittedBytes() < 20_000);
        }
        reopen();
        // Without exactly-once that is so with every store; and without a commit there is no folder, so nothing is left.
        assertEquals(List.of(), all(store.all()));
        store.put(k("a"), b("1"));
        store.commit(at(1));
        for (int i = 0; i < 100; i++) {
            store.put(k("k" + i), new byte[1000]);
        }
        reopen();
        assertEquals(1, store.committedOffset(CHANGELOG));
        assertNotNull(store.get(k("k0")));
    }

    @Test
    void underExactlyOnceThatIsMarked() {
        context.with(Settings.STAGED, "10k").with("processing.guarantee", "exactly_once_v2");
        reopen();
        store.put(k("a"), b("1"));
        store.commit(at(1));
        for (int i = 0; i < 100; i++) {
            store.put(k("k" + i), new byte[1000]);
        }
        reopen();
        assertEquals(List.of(), all(store.all()));
        assertNull(store.committedOffset(CHANGELOG));
        for (int i = 0; i < 100; i++) {
            store.put(k("k" + i), new byte[1000]);
        }
        store.commit(at(100));
        reopen();
        assertEquals(100, all(store.all()).size());
        assertEquals(100, store.committedOffset(CHANGELOG));
    }

    @Test
    void restoredRecordsAreThereBeforeTheirOffset() {
        List<KeyValue<byte[], byte[]>> records = new ArrayList<>();
        for (int i = 0; i < 5000; i++) {
            records.add(KeyValue.pair(b("k" + i % 1000), i % 7 == 0 ? null : new byte[1000]));
        }
        context.restore(records);
        assertNull(store.committedOffset(CHANGELOG));
        store.commit(at(4999));
        reopen();
        Map<String, Boolean> there = new HashMap<>();
        records.forEach(record -> there.put(s(record.key), record.value != null));
        for (Map.Entry<String, Boolean> one : there.entrySet()) {
            assertEquals(one.getValue(), store.get(k(one.getKey())) != null, one.getKey());
        }
        assertEquals(there.values().stream().filter(v -> v).count(), store.approximateNumEntries());
    }

    @Test
    void whatIsRestoredIsNewerThanWhatWaits() {
        store.put(k("a"), b("old"));
        store.put(k("b"), b("waits"));
        store.put(k("c"), b("old"));
        context.restore(List.of(KeyValue.pair(b("a"), b("new")), KeyValue.pair(b("c"), null)));
        for (int round = 0; round < 2; round++) {
            assertEquals("new", s(store.get(k("a"))));
            assertEquals("waits", s(store.get(k("b"))));
            assertNull(store.get(k("c")));
            store.commit(at(3));
            reopen();
        }
    }

    @Test
    void iteratorsSeeWhatWaitsAndWhatWasCommitted() {
        for (String key : List.of("a", "b", "c", "e")) {
            store.put(k(key), b("1"));
        }
        store.commit(at(1));
        store.put(k("b"), null);
        store.put(k("c"), b("2"));
        store.put(k("d"), b(""));
        store.put(k("f"), b("2"));
        assertEquals(List.of("a=1", "c=2", "d=", "e=1", "f=2"), all(store.all()));
        assertEquals(List.of("f=2", "e=1", "d=", "c=2", "a=1"), all(store.reverseAll()));
        assertEquals(List.of("c=2", "d="), all(store.range(k("b"), k("d"))));
        assertEquals(List.of("d=", "c=2"), all(store.reverseRange(k("b"), k("d"))));
        assertEquals(List.of("e=1", "f=2"), all(store.range(k("e"), null)));
        assertEquals(List.of("a=1"), all(store.range(null, k("b"))));
        assertEquals(List.of(), all(store.range(k("z"), k("a"))));
        assertEquals(List.of("d="), all(store.prefixScan("d", new StringSerializer())));
        assertEquals(5, store.approximateNumEntries());
        var committed = store.readOnly(IsolationLevel.READ_COMMITTED);
        assertEquals(List.of("a=1", "b=1", "c=1", "e=1"), all(committed.all()));
        assertEquals("1", s(committed.get(k("b"))));
        assertNull(store.get(k("b")));
        // One that has begun sees all of it, though it is committed meanwhile.
        KeyValueIterator<Bytes, byte[]> begun = store.all();
        store.commit(at(2));
        store.put(k("a"), null);
        store.commit(at(3));
        List<String> seen = all(begun);
        assertTrue(seen.containsAll(List.of("c=2", "d=", "e=1", "f=2")), seen.toString());
        assertFalse(seen.contains("b=1"));
        assertEquals(List.of("c=2", "d=", "e=1", "f=2"), all(store.all()));
    }

    @Test
    void theLogIsShortSoThatReplayIs() {
        assertTrue(store.engine.db.metrics().contains("\nterrace_log_limit_bytes " + (16 << 20) + "\n"));
        for (Object[] said : new Object[][] {{Settings.MEMORY, "128MiB", 32 << 20}, {Settings.LOG_LIMIT, "8MiB", 8 << 20}}) {
            store.close();
            Engine.closeIdle();
            context.with((String) said[0], said[1]);
            store = open();
            assertTrue(store.engine.db.metrics().contains("\nterrace_log_limit_bytes " + said[2] + "\n"));
        }
    }

    @Test
    void whatIsWrongIsSaid() {
        assertThrows(NullPointerException.class, () -> store.put(null, b("1")));
        assertThrows(NullPointerException.class, () -> store.get(null));
        var tooLong = assertThrows(ProcessorStateException.class, () -> store.put(Bytes.wrap(new byte[4097]), b("1")));
        assertTrue(tooLong.getMessage().contains("4097") && tooLong.getMessage().contains(" s "), tooLong.getMessage());
        store.put(Bytes.wrap(new byte[4096]), b("1"));
        store.commit(at(1));
        KeyValueIterator<Bytes, byte[]> open = store.all();
        store.close();
        store.close();
        assertFalse(store.isOpen());
        assertThrows(InvalidStateStoreException.class, () -> store.get(k("a")));
        assertThrows(InvalidStateStoreException.class, () -> store.put(k("a"), b("1")));
        assertThrows(InvalidStateStoreException.class, () -> store.all());
        assertThrows(InvalidStateStoreException.class, open::hasNext);
        Engine.closeIdle();
        context.with(Settings.MEMORY, "1000");
        var small = assertThrows(ProcessorStateException.class, this::open);
        assertTrue(small.getMessage().contains(Settings.MEMORY), small.getMessage());
        context.with(Settings.MEMORY, "16MiB");
    }

    @Test
    void thePositionIsThatOfTheLastRecord() {
        assertTrue(store.getPosition().isEmpty());
        context.at(12);
        store.put(k("a"), b("1"));
        store.commit(at(3));
        context.at(13);
        store.put(k("b"), b("2"));
        assertEquals(Map.of(1, 13L), store.getPosition().getPartitionPositions("input"));
        QueryConfig plain = new QueryConfig(false);
        PositionBound reached = PositionBound.at(Position.emptyPosition().withComponent("input", 1, 13));
        QueryResult<byte[]> answer = store.query(KeyQuery.<Bytes, byte[]>withKey(k("b")), reached, plain);
        assertEquals("2", s(answer.getResult()));
        PositionBound later = PositionBound.at(Position.emptyPosition().withComponent("input", 1, 14));
        assertFalse(store.query(KeyQuery.<Bytes, byte[]>withKey(k("b")), later, plain).isSuccess());
        assertEquals(List.of("b=2", "a=1"), all(store.query(
            RangeQuery.<Bytes, byte[]>withNoBounds().withDescendingKeys(), PositionBound.unbounded(), plain).getResult()));
        reopen();
        assertEquals(Map.of(1, 12L), store.getPosition().getPartitionPositions("input"));
    }

    @Test
    void thePositionOfAnObjectThatIsOpenedAgainIsTheCommittedOne() {
        context.at(12);
        store.put(k("a"), b("1"));
        store.commit(at(3));
        context.at(13);
        store.put(k("b"), b("2"));
        store.close();
        store.init(context, store);
        assertEquals(Map.of(1, 12L), store.getPosition().getPartitionPositions("input"));
        // And so is that of one that is wiped.
        store.close();
        delete(context.stateDir().toPath());
        context = new TestContext(application);
        store.init(context, store);
        assertTrue(store.getPosition().isEmpty());
    }

    @Test
    void aStoreThatIsOpenedInAnotherFormatBeginsAnew() {
        store.put(k("a"), b("12345678plain"));
        store.commit(at(7));
        for (KeyValueRecords other : List.of(new KeyValueRecords.Timestamped("s"), new KeyValueRecords.WithHeaders("s"))) {
            store.close();
            store = other;
            store.init(context, store);
            assertNull(store.committedOffset(CHANGELOG));
            assertEquals(List.of(), all(store.all()));
            store.put(k("b"), b("2"));
            store.commit(at(8));
            store.close();
            store.init(context, store);
            assertEquals(8, store.committedOffset(CHANGELOG));
            assertEquals(List.of("b=2"), all(store.all()));
        }
    }

    @Test
    void aStoreWithoutChangelogIsThereThoughItWasWrittenBeforeItsCommit() {
        context.with(Settings.STAGED, "10k");
        reopen();
        int puts = 0;
        do {
            store.put(k("k" + puts++), new byte[1000]);
        } while (store.approximateNumUncommittedBytes() > 0);
        store.commit(Map.of());
        reopen();
        assertEquals(puts, all(store.all()).size());
    }

    @Test
    void anEngineThatCannotBeUsedIsClosed() {
        Path other = application.resolve("other");
        Path folder = other.resolve("terrace");
        try (Database db = Terrace.open(folder, Options.memory("16MiB"))) {
            db.tree("stores");
        }
        KeyValueRecords unlucky = new KeyValueRecords("s");
        var thrown = assertThrows(ProcessorStateException.class, () -> unlucky.init(new TestContext(other), unlucky));
        assertTrue(thrown.getMessage().contains(folder.toString()), thrown.getMessage());
        // Nobody has it open.
        Terrace.open(folder, Options.memory("16MiB")).close();
    }

    @Test
    void aFolderThatIsNoneOfATaskKeepsItsStores() {
        Path plain = application.resolve("plain");
        TestContext there = new TestContext(plain, "");
        KeyValueRecords kept = new KeyValueRecords("s");
        kept.init(there, kept);
        kept.put(k("a"), b("1"));
        kept.commit(at(7));
        kept.close();
        Engine.closeIdle();
        kept.init(there, kept);
        assertEquals(List.of("a=1"), all(kept.all()));
        assertEquals(7, kept.committedOffset(CHANGELOG));
        kept.close();
    }

    /** As Streams does it: the tasks of a thread share sensors of a name. */
    private static StreamsMetrics metrics(Metrics of) {
        return (StreamsMetrics) Proxy.newProxyInstance(CommitTest.class.getClassLoader(), new Class<?>[] {StreamsMetrics.class},
            (proxy, method, arguments) -> {
                if (method.getName().equals("removeSensor")) {
                    of.removeSensor(((Sensor) arguments[0]).name());
                    return null;
                }
                return of.sensor("thread." + arguments[1] + "-" + arguments[2]);
            });
    }

    @Test
    void storesOfTwoTasksAreMeasuredEachByItself() {
        try (Metrics all = new Metrics()) {
            List<KeyValueRecords> stores = new ArrayList<>();
            for (String task : List.of("0_2", "0_3")) {
                TestContext its = new TestContext(application, task);
                its.metrics = metrics(all);
                KeyValueRecords one = new KeyValueRecords("s");
                one.init(its, one);
                stores.add(one);
            }
            stores.get(0).close();
            // Those of the other one are there still.
            assertNotNull(all.getSensor("thread.0_3.s-commit"));
            assertNull(all.getSensor("thread.0_2.s-commit"));
            stores.get(1).close();
        }
    }

    @Test
    void anIteratorWaitsForNoStoreThatIsClosed() throws Exception {
        store.put(k("a"), b("1"));
        store.put(k("b"), b("2"));
        store.commit(at(1));
        KeyValueRecords read = store;
        Thread closes = new Thread(read::close);
        AtomicReference<Thread.State> seen = new AtomicReference<>();
        // While one thread is in the engine for a record, another one closes the store.
        Records<Bytes, byte[]> records = new Records<>(read, read.parts(), part -> part.range(null, null, false, false), (key, value) -> {
            if (s(key.get()).equals("b")) {
                closes.start();
                do {
                    seen.set(closes.getState());
                } while (seen.get() != Thread.State.BLOCKED && seen.get() != Thread.State.TERMINATED);
            }
            return KeyValue.pair(key, value);
        });
        assertEquals("a", s(records.next().key.get()));
        assertEquals("b", s(records.next().key.get()));
        closes.join();
        assertEquals(Thread.State.BLOCKED, seen.get());
        assertThrows(InvalidStateStoreException.class, records::hasNext);
        // And one that is made just then is not forgotten.
        assertThrows(InvalidStateStoreException.class,
            () -> new Records<>(read, read.parts(), part -> part.range(null, null, false, false), KeyValue::pair));
    }

    @Test
    void storesThatAreGoneAreSwept() {
        store.put(k("a"), b("1"));
        store.commit(at(1));
        store.close();
        delete(context.stateDir().toPath());
        Engine.closeIdle();
        // Closing has looked: the structure is gone.
        context = new TestContext(application);
        store = open();
        assertFalse(store.engine.db.structures().containsKey("0_1/s"));
    }
}
