package org.terrace.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.Random;
import java.util.function.Consumer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What people write with the DSL, on stores of Terrace, of RocksDB and in memory: the same comes out. */
class TopologiesTest {
    private static String windowed(Windowed<String> key) {
        return key.key() + "@" + key.window().start() + "-" + key.window().end();
    }

    private static <V> void out(KStream<String, V> stream) {
        stream.mapValues(String::valueOf).to("out", Produced.with(Serdes.String(), Serdes.String()));
    }

    private static KStream<String, String> left(StreamsBuilder builder) {
        return builder.stream("left", Consumed.with(Serdes.String(), Serdes.String()));
    }

    private static void topology(String what, StreamsBuilder builder) {
        Duration minute = Duration.ofMinutes(1);
        TimeWindows hopping = TimeWindows.ofSizeAndGrace(minute, minute).advanceBy(Duration.ofSeconds(20));
        TimeWindows tumbling = TimeWindows.ofSizeAndGrace(minute, minute);
        switch (what) {
            case "count":
                out(left(builder).groupByKey().count(Materialized.as("counts")).toStream());
                break;
            case "reduce":
                out(left(builder).groupByKey().reduce((a, b) -> b.equals("v0") ? null : a + b.charAt(1)).toStream());
                break;
            case "join of tables":
                out(builder.<String, String>table("left").outerJoin(builder.<String, String>table("right"), (a, b) -> a + "+" + b)
                    .toStream());
                break;
            case "join by foreign key":
                KTable<String, String> people = builder.table("left");
                out(people.leftJoin(builder.<String, String>table("right"), value -> value == null ? null : "k" + value.charAt(1),
                    (a, b) -> a + "+" + b).toStream());
                break;
            case "hopping":
                out(left(builder).groupByKey().windowedBy(hopping).count().toStream((key, value) -> windowed(key)));
                break;
            case "tumbling":
                out(left(builder).groupByKey().windowedBy(tumbling).aggregate(() -> "", (key, value, all) -> all + value)
                    .toStream((key, value) -> windowed(key)));
                break;
            case "tumbling, at the close":
                out(left(builder).groupByKey().windowedBy(tumbling).emitStrategy(EmitStrategy.onWindowClose()).count()
                    .toStream((key, value) -> windowed(key)));
                break;
            case "sliding":
                out(left(builder).groupByKey().windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(minute, minute)).count()
                    .toStream((key, value) -> windowed(key)));
                break;
            case "sessions":
                out(left(builder).groupByKey().windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofSeconds(25), minute))
                    .count().toStream((key, value) -> windowed(key)));
                break;
            case "sessions, at the close":
                out(left(builder).groupByKey().windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofSeconds(25), minute))
                    .emitStrategy(EmitStrategy.onWindowClose()).count().toStream((key, value) -> windowed(key)));
                break;
            case "sessions, suppressed":
                out(left(builder).groupByKey().windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofSeconds(25), minute))
                    .count().suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))
                    .toStream((key, value) -> windowed(key)));
                break;
            case "suppress":
                out(left(builder).groupByKey().windowedBy(tumbling).count()
                    .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded())).toStream((key, value) -> windowed(key)));
                break;
            case "join of streams":
                out(left(builder).leftJoin(builder.<String, String>stream("right"), (a, b) -> a + "+" + b,
                    JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(30), minute),
                    StreamJoined.with(Serdes.String(), Serdes.String(), Serdes.String())));
                break;
            default:
                throw new AssertionError(what);
        }
    }

    private static Properties properties(Path folder, Class<?> suppliers, boolean cached) {
        Properties properties = new Properties();
        properties.put("application.id", "topology");
        properties.put("bootstrap.servers", "none:1");
        properties.put("state.dir", folder.toString());
        properties.put("default.key.serde", Serdes.StringSerde.class);
        properties.put("default.value.serde", Serdes.StringSerde.class);
        properties.put("statestore.cache.max.bytes", cached ? "1000000" : "0");
        properties.put("commit.interval.ms", "10");
        properties.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, suppliers);
        // Windows that close are looked for with each record, whatever the clock says.
        properties.put("__emit.interval.ms.kstreams.windowed.aggregation__", 0L);
        properties.put(Settings.MEMORY, "16MiB");
        properties.put(Settings.LINGER, "0");
        return properties;
    }

    private static List<String> run(String what, Class<?> suppliers, boolean cached) throws Exception {
        Path folder = Files.createTempDirectory("terrace-topology");
        StreamsBuilder builder = new StreamsBuilder();
        topology(what, builder);
        Properties properties = properties(folder, suppliers, cached);
        List<String> out = new ArrayList<>();
        try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(properties), properties)) {
            List<TestInputTopic<String, String>> in = new ArrayList<>();
            for (String topic : what.startsWith("join") ? List.of("left", "right") : List.of("left")) {
                in.add(driver.createInputTopic(topic, new StringSerializer(), new StringSerializer()));
            }
            var results = driver.createOutputTopic("out", new StringDeserializer(), new StringDeserializer());
            Random random = new Random(42);
            long time = 1_000_000;
            for (int i = 0; i < 400; i++) {
                time += random.nextInt(8000);
                String value = what.startsWith("join of tables") && random.nextInt(6) == 0 ? null : "v" + random.nextInt(9);
                long late = random.nextInt(5) == 0 ? random.nextInt(200_000) : 0;
                in.get(random.nextInt(in.size())).pipeInput("k" + random.nextInt(9), value, time - late);
                // Several at one instant come in an order that is nobody's.
                List<String> some = new ArrayList<>();
                for (KeyValue<String, String> result : results.readKeyValuesToList()) {
                    some.add(result.key + " = " + result.value);
                }
                some.sort(null);
                out.addAll(some);
            }
            if (suppliers == TerraceDslStoreSuppliers.class) {
                assertTrue(Files.isDirectory(folder.resolve("topology").resolve("terrace")), "it was not Terrace that was asked");
            }
        } finally {
            CommitTest.delete(folder);
        }
        return out;
    }

    @ParameterizedTest
    @ValueSource(strings = {"count", "reduce", "join of tables", "join by foreign key", "hopping", "tumbling", "tumbling, at the close",
        "sliding", "sessions", "sessions, suppressed", "suppress", "join of streams"})
    void theSameComesOut(String what) throws Exception {
        for (boolean cached : new boolean[] {false, true}) {
            List<String> ours = run(what, TerraceDslStoreSuppliers.class, cached);
            assertTrue(ours.size() > 50, () -> ours.size() + " results");
            assertEquals(run(what, BuiltInDslStoreSuppliers.RocksDBDslStoreSuppliers.class, cached), ours);
            if (!what.endsWith("at the close")) {
                // Those in memory have forgotten a window by then.
                assertEquals(run(what, BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers.class, cached), ours);
            }
        }
    }

    /** RocksDB drops a segment before it has told all sessions of it; nobody who suppresses loses one. */
    @Test
    void sessionsAreToldAtTheirCloseAllOfThem() throws Exception {
        List<String> ours = run("sessions, at the close", TerraceDslStoreSuppliers.class, false);
        assertTrue(ours.containsAll(run("sessions, at the close", BuiltInDslStoreSuppliers.RocksDBDslStoreSuppliers.class, false)));
        List<String> suppressed = run("sessions, suppressed", BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers.class, false);
        suppressed.sort(null);
        ours.sort(null);
        assertEquals(suppressed, ours);
    }

    @Test
    void aStoreIsReadAndComesBack() throws Exception {
        Path folder = Files.createTempDirectory("terrace-topology");
        StreamsBuilder builder = new StreamsBuilder();
        left(builder).groupByKey(Grouped.as("g")).count(Named.as("n"), Materialized.as(TerraceStores.timestampedKeyValueStore("counts")));
        Properties properties = properties(folder, BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers.class, false);
        Consumer<TopologyTestDriver> feed = driver -> driver.createInputTopic("left", new StringSerializer(), new StringSerializer())
            .pipeInput("a", "v");
        try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(properties), properties)) {
            feed.accept(driver);
            feed.accept(driver);
            assertEquals(2L, driver.getTimestampedKeyValueStore("counts").get("a").value());
            assertEquals(1, driver.getTimestampedKeyValueStore("counts").approximateNumEntries());
        }
        // The driver deletes its folder; so must what lingers.
        try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(properties), properties)) {
            feed.accept(driver);
            assertEquals(1L, driver.getTimestampedKeyValueStore("counts").get("a").value());
        } finally {
            CommitTest.delete(folder);
        }
        assertFalse(Files.exists(folder));
    }
}
