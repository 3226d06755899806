import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.Random;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.WindowStore;
import org.terrace.kafka.TerraceStores;

/** A store of Terrace beside one of RocksDB, through Streams' builders, in turns: microseconds of processor time an operation. */
public class Stores {
    static final int KEYS = Integer.getInteger("keys", 100_000);
    static final int CALLS = Integer.getInteger("calls", 200_000);
    /** Operations between two commits. */
    static final int COMMIT = 2000;
    static long sink;

    static long cpu() {
        return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
    }

    static Properties properties(Path folder) {
        Properties properties = new Properties();
        properties.put("application.id", "bench");
        properties.put("bootstrap.servers", "none:1");
        properties.put("state.dir", folder.toString());
        properties.put("default.key.serde", Serdes.StringSerde.class);
        properties.put("default.value.serde", Serdes.StringSerde.class);
        properties.put("terrace.memory", System.getProperty("memory", "256MiB"));
        properties.put("terrace.linger.ms", "0");
        if (System.getProperty("log") != null) {
            properties.put("terrace.log.limit", System.getProperty("log"));
        }
        return properties;
    }

    interface Work {
        void run(ProcessorContext<Void, Void> context, int record);
    }

    /** Runs work for each of some records, with a commit behind each; microseconds an operation. */
    static double measured(Topology topology, Work work, int records, int operations) throws Exception {
        Path folder = Files.createTempDirectory("terrace-bench");
        int[] at = {0};
        topology.addSource("source", "in");
        topology.addProcessor("processor", () -> new Processor<Object, Object, Void, Void>() {
            private ProcessorContext<Void, Void> context;

            @Override
            public void init(ProcessorContext<Void, Void> context) {
                this.context = context;
            }

            @Override
            public void process(Record<Object, Object> record) {
                work.run(context, at[0]++);
            }
        }, "source");
        topology.connectProcessorAndStateStores("processor", "s");
        try (TopologyTestDriver driver = new TopologyTestDriver(topology, properties(folder))) {
            var in = driver.createInputTopic("in", new StringSerializer(), new StringSerializer());
            for (int i = 0; i < records / 2; i++) {
                in.pipeInput("k", "v");
            }
            long begin = cpu();
            for (int i = records / 2; i < records; i++) {
                in.pipeInput("k", "v");
            }
            return (cpu() - begin) / 1000.0 / ((records - records / 2) * (double) operations);
        } finally {
            new ProcessBuilder("rm", "-rf", folder.toString()).start().waitFor();
        }
    }

    static double records(KeyValueBytesStoreSupplier supplier) throws Exception {
        Topology topology = new Topology();
        topology.addStateStore(org.apache.kafka.streams.state.Stores.keyValueStoreBuilder(supplier, Serdes.String(), Serdes.ByteArray())
            .withCachingDisabled().withLoggingDisabled());
        Random random = new Random(1);
        byte[] value = new byte[100];
        String[] keys = new String[KEYS];
        for (int i = 0; i < KEYS; i++) {
            keys[i] = String.format("%016d", i);
        }
        return measured(topology, (context, n) -> {
            KeyValueStore<String, byte[]> store = context.getStateStore("s");
            for (int i = 0; i < COMMIT / 2; i++) {
                double z = random.nextDouble();
                String key = keys[(int) (KEYS * z * z * z)];
                byte[] found = store.get(key);
                sink += found == null ? 0 : found.length;
                store.put(key, value);
            }
        }, CALLS * 2 / COMMIT, COMMIT);
    }

    static double windows(boolean terrace) throws Exception {
        Duration kept = Duration.ofHours(1);
        Duration size = Duration.ofMinutes(1);
        Topology topology = new Topology();
        topology.addStateStore(org.apache.kafka.streams.state.Stores.windowStoreBuilder(
            terrace ? TerraceStores.windowStore("s", kept, size, false)
                : org.apache.kafka.streams.state.Stores.persistentWindowStore("s", kept, size, false),
            Serdes.String(), Serdes.Long()).withCachingDisabled().withLoggingDisabled());
        Random random = new Random(1);
        return measured(topology, (context, n) -> {
            WindowStore<String, Long> store = context.getStateStore("s");
            for (int i = 0; i < COMMIT / 2; i++) {
                String key = "user-" + (int) (2000 * Math.pow(random.nextDouble(), 3));
                long start = (n * 20_000L + i * 20L) / 60_000 * 60_000;
                Long count = store.fetch(key, start);
                store.put(key, count == null ? 1L : count + 1, start);
            }
        }, CALLS * 4 / COMMIT, COMMIT);
    }

    static double median(List<Double> all) {
        Collections.sort(all);
        return all.get(all.size() / 2);
    }

    public static void main(String[] arguments) throws Exception {
        List<Double> ours = new ArrayList<>();
        List<Double> theirs = new ArrayList<>();
        List<Double> ourWindows = new ArrayList<>();
        List<Double> theirWindows = new ArrayList<>();
        for (int round = 0; round < 4; round++) {
            ours.add(records(TerraceStores.keyValueStore("s")));
            theirs.add(records(org.apache.kafka.streams.state.Stores.persistentKeyValueStore("s")));
            ourWindows.add(windows(true));
            theirWindows.add(windows(false));
        }
        // The first round warms up.
        for (List<Double> all : List.of(ours, theirs, ourWindows, theirWindows)) {
            all.remove(0);
        }
        System.out.printf("get and put\tterrace %.2f us\trocksdb %.2f us\t%.2f times%n", median(ours), median(theirs),
            median(theirs) / median(ours));
        System.out.printf("windowed count\tterrace %.2f us\trocksdb %.2f us\t%.2f times%n", median(ourWindows), median(theirWindows),
            median(theirWindows) / median(ourWindows));
    }
}
