package org.terrace.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.function.Function;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.ShrinkingMode;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.TimestampedKeyValueStore;
import org.apache.kafka.streams.state.TimestampedWindowStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowStore;

/** The same random calls to a store of Terrace and to one of Streams in memory, through all builders, answer the same. */
class DifferentialTest {
    /** What one record does to both stores. */
    private interface Calls<S> {
        void run(S ours, S theirs, Random random, long time);
    }

    private static <B extends StoreBuilder<?>> B built(B builder, boolean caching, boolean logging) {
        if (caching) {
            builder.withCachingEnabled();
        } else {
            builder.withCachingDisabled();
        }
        if (logging) {
            builder.withLoggingEnabled(Map.of());
        } else {
            builder.withLoggingDisabled();
        }
        return builder;
    }

    /** Each record is an attempt of its own, with a commit behind it. */
    private static <S extends StateStore> void compare(long seed, StoreBuilder<?> ours, StoreBuilder<?> theirs, int records,
            Calls<S> calls) throws Exception {
        Random random = new Random(seed);
        Topology topology = new Topology();
        topology.addSource("source", "in");
        topology.addProcessor("processor", () -> new Processor<Object, Object, Void, Void>() {
            private ProcessorContext<Void, Void> context;

            @Override
            public void init(ProcessorContext<Void, Void> context) {
                this.context = context;
            }

            @Override
            public void process(Record<Object, Object> record) {
                S one = context.getStateStore("ours");
                S other = context.getStateStore("theirs");
                calls.run(one, other, random, record.timestamp());
            }
        }, "source");
        topology.addStateStore(ours, "processor");
        topology.addStateStore(theirs, "processor");
        var folder = java.nio.file.Files.createTempDirectory("terrace-differential");
        Properties properties = new Properties();
        properties.put("application.id", "differential");
        properties.put("bootstrap.servers", "none:1");
        properties.put("state.dir", folder.toString());
        properties.put("default.key.serde", Serdes.StringSerde.class);
        properties.put("default.value.serde", Serdes.StringSerde.class);
        properties.put(Settings.MEMORY, "16MiB");
        properties.put(Settings.LINGER, "0");
        try (TopologyTestDriver driver = new TopologyTestDriver(topology, properties)) {
            var in = driver.createInputTopic("in", new StringSerializer(), new StringSerializer());
            long time = 1_000_000;
            for (int i = 0; i < records; i++) {
                time += random.nextInt(40_000);
                in.pipeInput("k", "v", time);
            }
        } finally {
            CommitTest.delete(folder);
        }
    }

    /** With zeros, which Streams' own cache of windows and its windows with duplicates do not always find, only where there is neither. */
    private static String key(Random random, boolean plainKeys) {
        char[] key = new char[1 + random.nextInt(3)];
        for (int i = 0; i < key.length; i++) {
            key[i] = (plainKeys ? "abyz" : "\0abz").charAt(random.nextInt(4));
        }
        return new String(key);
    }

    private static <K, V> List<String> all(KeyValueIterator<K, V> iterator) {
        List<String> all = new ArrayList<>();
        try (iterator) {
            while (iterator.hasNext()) {
                var next = iterator.next();
                all.add(Arrays.deepToString(new Object[] {next.key, next.value}));
            }
        }
        return all;
    }

    private static <V> Calls<KeyValueStore<String, V>> records(Function<String, V> value, boolean caching) {
        return (ours, theirs, random, time) -> {
            for (int i = 0; i < 12; i++) {
                String key = key(random, caching);
                String to = key(random, caching);
                V one = random.nextInt(4) == 0 ? null : value.apply("v" + random.nextInt(100));
                switch (random.nextInt(9)) {
                    case 0:
                        assertEquals(theirs.delete(key), ours.delete(key));
                        break;
                    case 1:
                        assertEquals(theirs.putIfAbsent(key, one), ours.putIfAbsent(key, one));
                        break;
                    case 2:
                        assertEquals(theirs.get(key), ours.get(key));
                        break;
                    case 3:
                        assertEquals(all(theirs.range(key, to)), all(ours.range(key, to)));
                        assertEquals(all(theirs.reverseRange(key, to)), all(ours.reverseRange(key, to)));
                        break;
                    case 4:
                        assertEquals(all(theirs.range(null, to)), all(ours.range(null, to)));
                        assertEquals(all(theirs.range(key, null)), all(ours.range(key, null)));
                        break;
                    case 5:
                        assertEquals(all(theirs.prefixScan(key, new StringSerializer())),
                            all(ours.prefixScan(key, new StringSerializer())));
                        break;
                    default:
                        theirs.put(key, one);
                        ours.put(key, one);
                }
            }
            assertEquals(all(theirs.all()), all(ours.all()));
            assertEquals(all(theirs.reverseAll()), all(ours.reverseAll()));
        };
    }

    @Property(tries = 12, shrinking = ShrinkingMode.OFF)
    void plainRecords(@ForAll long seed, @ForAll boolean caching, @ForAll boolean logging) throws Exception {
        compare(seed,
            built(Stores.keyValueStoreBuilder(TerraceStores.keyValueStore("ours"), Serdes.String(), Serdes.String()), caching, logging),
            built(Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore("theirs"), Serdes.String(), Serdes.String()), caching,
                logging),
            12, DifferentialTest.<String>records(v -> v, caching));
    }

    @Property(tries = 12, shrinking = ShrinkingMode.OFF)
    void recordsWithTimestamps(@ForAll long seed, @ForAll boolean caching, @ForAll boolean logging) throws Exception {
        compare(seed,
            built(Stores.timestampedKeyValueStoreBuilder(TerraceStores.timestampedKeyValueStore("ours"), Serdes.String(),
                Serdes.String()), caching, logging),
            built(Stores.timestampedKeyValueStoreBuilder(Stores.inMemoryKeyValueStore("theirs"), Serdes.String(), Serdes.String()),
                caching, logging),
            12, (TimestampedKeyValueStore<String, String> ours, TimestampedKeyValueStore<String, String> theirs, Random random,
                long time) -> DifferentialTest.<ValueAndTimestamp<String>>records(v -> ValueAndTimestamp.make(v, time), caching).run(ours,
                    theirs, random, time));
    }

    private static List<String> sorted(List<String> all) {
        Collections.sort(all);
        return all;
    }

    /** Of windows with several keys the order is not said, but that of each key is. */
    private static <V> List<String> byKey(KeyValueIterator<Windowed<String>, V> iterator) {
        Map<String, List<String>> keys = new HashMap<>();
        try (iterator) {
            while (iterator.hasNext()) {
                var next = iterator.next();
                keys.computeIfAbsent(next.key.key(), key -> new ArrayList<>())
                    .add(next.key.window().start() + "-" + next.key.window().end() + " " + next.value);
            }
        }
        List<String> all = new ArrayList<>();
        keys.forEach((key, of) -> all.add(key + of));
        return sorted(all);
    }

    private static String said(String from, String to, Instant least, Instant most) {
        return "from " + from + " to " + to + ", " + least.toEpochMilli() + " to " + most.toEpochMilli();
    }

    private static <V> Calls<WindowStore<String, V>> windows(Function<String, V> value, boolean duplicates, boolean plainKeys) {
        return (ours, theirs, random, time) -> {
            for (int i = 0; i < 10; i++) {
                String key = key(random, plainKeys);
                String to = key(random, plainKeys);
                // A null of those moves the time in memory, and not in RocksDB, as here.
                V one = !duplicates && random.nextInt(4) == 0 ? null : value.apply("v" + random.nextInt(100));
                long start = Math.max(0, time - random.nextInt(400_000));
                Instant least = Instant.ofEpochMilli(Math.max(0, time - random.nextInt(400_000)));
                Instant most = least.plusMillis(random.nextInt(300_000));
                switch (random.nextInt(6)) {
                    case 0:
                        if (!duplicates) {
                            assertEquals(theirs.fetch(key, start), ours.fetch(key, start));
                        }
                        break;
                    case 1:
                        assertEquals(all(theirs.fetch(key, least, most)), all(ours.fetch(key, least, most)));
                        List<String> back = all(theirs.backwardFetch(key, least, most));
                        List<String> ourBack = all(ours.backwardFetch(key, least, most));
                        // Of several at one time the order is nobody's.
                        assertEquals(duplicates ? sorted(back) : back, duplicates ? sorted(ourBack) : ourBack);
                        break;
                    case 2:
                        assertEquals(byKey(theirs.fetch(key, to, least, most)), byKey(ours.fetch(key, to, least, most)),
                            () -> said(key, to, least, most));
                        assertEquals(byKey(theirs.fetch(null, to, least, most)), byKey(ours.fetch(null, to, least, most)),
                            () -> said(null, to, least, most));
                        break;
                    default:
                        theirs.put(key, one, start);
                        ours.put(key, one, start);
                }
            }
            assertEquals(byKey(theirs.all()), byKey(ours.all()));
            Instant then = Instant.ofEpochMilli(Math.max(0, time - 100_000));
            Instant now = Instant.ofEpochMilli(time);
            assertEquals(byKey(theirs.fetchAll(then, now)), byKey(ours.fetchAll(then, now)));
            if (!duplicates) {
                assertEquals(byKey(theirs.backwardAll()), byKey(ours.backwardAll()));
                assertEquals(byKey(theirs.backwardFetchAll(then, now)), byKey(ours.backwardFetchAll(then, now)));
            }
        };
    }

    /** Of windows in memory the order is by time, and Streams' cache above them, which is by key, shows what was deleted. */
    private static WindowBytesStoreSupplier theirWindows(boolean caching, boolean duplicates) {
        return caching ? Stores.persistentWindowStore("theirs", KEPT, SIZE, duplicates)
            : Stores.inMemoryWindowStore("theirs", KEPT, SIZE, duplicates);
    }

    private static final Duration KEPT = Duration.ofMinutes(4);
    private static final Duration SIZE = Duration.ofSeconds(30);

    @Property(tries = 12, shrinking = ShrinkingMode.OFF)
    void plainWindows(@ForAll long seed, @ForAll boolean caching, @ForAll boolean logging, @ForAll boolean duplicates)
            throws Exception {
        boolean cached = caching && !duplicates;
        compare(seed,
            built(Stores.windowStoreBuilder(TerraceStores.windowStore("ours", KEPT, SIZE, duplicates), Serdes.String(),
                Serdes.String()), cached, logging),
            built(Stores.windowStoreBuilder(theirWindows(cached, duplicates), Serdes.String(),
                Serdes.String()), cached, logging),
            25, DifferentialTest.<String>windows(v -> v, duplicates, caching || duplicates));
    }

    @Property(tries = 8, shrinking = ShrinkingMode.OFF)
    void windowsWithTimestamps(@ForAll long seed, @ForAll boolean caching, @ForAll boolean logging) throws Exception {
        compare(seed,
            built(Stores.timestampedWindowStoreBuilder(TerraceStores.timestampedWindowStore("ours", KEPT, SIZE, false),
                Serdes.String(), Serdes.String()), caching, logging),
            built(Stores.timestampedWindowStoreBuilder(caching ? Stores.persistentTimestampedWindowStore("theirs", KEPT, SIZE, false)
                : Stores.inMemoryWindowStore("theirs", KEPT, SIZE, false), Serdes.String(),
                Serdes.String()), caching, logging),
            25, (TimestampedWindowStore<String, String> ours, TimestampedWindowStore<String, String> theirs, Random random,
                long time) -> DifferentialTest.<ValueAndTimestamp<String>>windows(v -> ValueAndTimestamp.make(v, time), false, caching)
                    .run(ours, theirs, random, time));
    }

    @Property(tries = 12, shrinking = ShrinkingMode.OFF)
    void sessions(@ForAll long seed, @ForAll boolean caching, @ForAll boolean logging) throws Exception {
        compare(seed,
            built(Stores.sessionStoreBuilder(TerraceStores.sessionStore("ours", KEPT), Serdes.String(), Serdes.String()), caching,
                logging),
            built(Stores.sessionStoreBuilder(Stores.inMemorySessionStore("theirs", KEPT), Serdes.String(), Serdes.String()), caching,
                logging),
            25, (SessionStore<String, String> ours, SessionStore<String, String> theirs, Random random, long time) -> {
                for (int i = 0; i < 10; i++) {
                    String key = key(random, caching);
                    String to = key(random, caching);
                    long start = Math.max(0, time - random.nextInt(500_000));
                    long end = Math.min(time, start + random.nextInt(100_000));
                    switch (random.nextInt(6)) {
                        case 0:
                            assertEquals(theirs.fetchSession(key, start, end), ours.fetchSession(key, start, end));
                            break;
                        case 1:
                            assertEquals(sorted(all(theirs.findSessions(key, start, end))),
                                sorted(all(ours.findSessions(key, start, end))));
                            // Streams' cache throws there at times.
                            if (!caching) {
                                assertEquals(sorted(all(theirs.backwardFindSessions(key, start, end))),
                                    sorted(all(ours.backwardFindSessions(key, start, end))));
                            }
                            break;
                        case 2:
                            assertEquals(sorted(all(theirs.findSessions(key, to, start, end))),
                                sorted(all(ours.findSessions(key, to, start, end))));
                            break;
                        case 3:
                            assertEquals(sorted(all(theirs.fetch(key))), sorted(all(ours.fetch(key))));
                            break;
                        default:
                            Windowed<String> session = session(key, start, end);
                            String value = random.nextInt(4) == 0 ? null : "v" + random.nextInt(100);
                            theirs.put(session, value);
                            ours.put(session, value);
                            if (random.nextInt(8) == 0) {
                                theirs.remove(session);
                                ours.remove(session);
                            }
                    }
                }
                assertEquals(sorted(all(theirs.fetch("\0", "zzzz"))), sorted(all(ours.fetch("\0", "zzzz"))));
            });
    }

    private static Windowed<String> session(String key, long start, long end) {
        return new Windowed<>(key, new org.apache.kafka.streams.kstream.internals.SessionWindow(start, end));
    }
}
