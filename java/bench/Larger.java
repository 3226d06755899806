import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.function.IntSupplier;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.RocksDBConfigSetter;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.Cache;
import org.rocksdb.LRUCache;
import org.rocksdb.Options;
import org.rocksdb.WriteBufferManager;
import org.terrace.kafka.TerraceStores;

/**
 * Eight stores with four times as much data as memory, in turns with eight of RocksDB that share a cache and a manager of write
 * buffers of the same number: microseconds of processor time of the process for a get and a put, first of keys by Zipf's law
 * (.99), then of any. Arguments: records, operations of each kind, rounds.
 */
public class Larger {
    static final int STORES = 8;
    static final int VALUE = 100;
    /** Gets and puts between two commits. */
    static final int COMMIT = 5000;
    static long sink;

    /** The whole memory of all stores of RocksDB, as its documentation bounds it. */
    public static final class Bounded implements RocksDBConfigSetter {
        static Cache cache;
        static WriteBufferManager buffers;
        static boolean direct;

        static void make(long bytes) {
            cache = new LRUCache(bytes, -1, false, 0.1);
            buffers = new WriteBufferManager(bytes / 4, cache);
        }

        @Override
        public void setConfig(String store, Options options, Map<String, Object> configs) {
            BlockBasedTableConfig table = (BlockBasedTableConfig) options.tableFormatConfig();
            table.setBlockCache(cache);
            table.setCacheIndexAndFilterBlocks(true);
            table.setCacheIndexAndFilterBlocksWithHighPriority(true);
            table.setPinTopLevelIndexAndFilter(true);
            options.setWriteBufferManager(buffers);
            options.setUseDirectReads(direct);
            options.setUseDirectIoForFlushAndCompaction(direct);
            options.setTableFormatConfig(table);
        }

        @Override
        public void close(String store, Options options) {
            // Shared by all.
        }
    }

    /** Ranks by Zipf's law, spread over all keys. */
    static IntSupplier zipf(int records, Random random) {
        double theta = .99;
        double zeta = 0;
        for (int i = 1; i <= records; i++) {
            zeta += Math.pow(i, -theta);
        }
        double all = zeta;
        double two = 1 + Math.pow(.5, theta);
        double alpha = 1 / (1 - theta);
        double eta = (1 - Math.pow(2.0 / records, 1 - theta)) / (1 - two / all);
        return () -> {
            double u = random.nextDouble();
            long rank = u * all < 1 ? 0 : u * all < two ? 1 : (long) (records * Math.pow(eta * u - eta + 1, alpha));
            return (int) (rank * 2_654_435_761L % records);
        };
    }

    static long cpu() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    /** Bytes that this process has handed to files. */
    static long written() throws java.io.IOException {
        for (String line : Files.readAllLines(Path.of("/proc/self/io"))) {
            if (line.startsWith("wchar: ")) {
                return Long.parseLong(line.substring(7).trim());
            }
        }
        return 0;
    }

    static byte[] value(int key) {
        byte[] value = new byte[VALUE];
        Arrays.fill(value, (byte) key);
        return value;
    }

    /** Microseconds of a processor for Zipf's keys and for any, the longest of a thousand of each, bytes written for one put. */
    static double[] measured(boolean terrace, int records, int calls) throws Exception {
        Path folder = Files.createTempDirectory("terrace-bench");
        Topology topology = new Topology();
        topology.addSource("source", "in");
        int[] state = {0, 0};
        IntSupplier[] keys = {null};
        long[] took = new long[calls];
        topology.addProcessor("processor", () -> new ContextualProcessor<Object, Object, Void, Void>() {
            private final List<KeyValueStore<String, byte[]>> stores = new ArrayList<>();

            @Override
            public void init(org.apache.kafka.streams.processor.api.ProcessorContext<Void, Void> context) {
                super.init(context);
                for (int i = 0; i < STORES; i++) {
                    stores.add(context.getStateStore("s" + i));
                }
            }

            @Override
            public void process(Record<Object, Object> record) {
                for (int i = 0; i < COMMIT; i++) {
                    if (keys[0] == null) {
                        int n = (int) (state[0]++ * 2_654_435_761L % records);
                        stores.get(n % STORES).put(String.format("%016d", n), value(n));
                        continue;
                    }
                    int n = keys[0].getAsInt();
                    String key = String.format("%016d", n);
                    long begin = System.nanoTime();
                    KeyValueStore<String, byte[]> store = stores.get(n % STORES);
                    byte[] found = store.get(key);
                    if (found == null || found.length != VALUE || found[0] != (byte) n) {
                        throw new IllegalStateException("key " + n + " has another value");
                    }
                    store.put(key, found);
                    took[state[1]++ % calls] = System.nanoTime() - begin;
                }
            }
        }, "source");
        for (int i = 0; i < STORES; i++) {
            topology.addStateStore(org.apache.kafka.streams.state.Stores.keyValueStoreBuilder(
                terrace ? TerraceStores.keyValueStore("s" + i) : org.apache.kafka.streams.state.Stores.persistentKeyValueStore("s" + i),
                Serdes.String(), Serdes.ByteArray()).withCachingDisabled().withLoggingDisabled());
            topology.connectProcessorAndStateStores("processor", "s" + i);
        }
        long memory = records * (16L + VALUE) / 4;
        Properties properties = Stores.properties(folder);
        properties.put("terrace.memory", String.valueOf(memory));
        properties.put("rocksdb.config.setter", Bounded.class);
        Bounded.make(memory);
        double[] answer = new double[6];
        try (TopologyTestDriver driver = new TopologyTestDriver(topology, properties)) {
            var in = driver.createInputTopic("in", new StringSerializer(), new StringSerializer());
            for (int i = 0; i < records / COMMIT; i++) {
                in.pipeInput("k", "v");
            }
            Random random = new Random(1);
            for (int kind = 0; kind < 2; kind++) {
                keys[0] = kind == 0 ? zipf(records, random) : () -> random.nextInt(records);
                // As much again before it, for the memory to fill with what is used.
                for (int i = 0; i < calls / COMMIT; i++) {
                    in.pipeInput("k", "v");
                }
                state[1] = 0;
                long begin = cpu();
                long before = written();
                for (int i = 0; i < calls / COMMIT; i++) {
                    in.pipeInput("k", "v");
                }
                answer[kind] = (cpu() - begin) / 1000.0 / calls;
                answer[4 + kind] = (written() - before) / (double) calls / (16 + VALUE);
                Arrays.sort(took);
                answer[2 + kind] = took[calls - calls / 1000] / 1000.0;
            }
            return answer;
        } finally {
            new ProcessBuilder("rm", "-rf", folder.toString()).start().waitFor();
        }
    }

    public static void main(String[] arguments) throws Exception {
        // Its cache is made before its first store is.
        org.rocksdb.RocksDB.loadLibrary();
        int records = Integer.parseInt(arguments[0]);
        int calls = Integer.parseInt(arguments[1]) / COMMIT * COMMIT;
        int rounds = Integer.parseInt(arguments[2]);
        Bounded.direct = Boolean.getBoolean("direct");
        List<double[]> ours = new ArrayList<>();
        List<double[]> theirs = new ArrayList<>();
        for (int round = 0; round < rounds; round++) {
            ours.add(measured(true, records, calls));
            theirs.add(measured(false, records, calls));
            System.err.println(Arrays.toString(ours.get(round)) + " " + Arrays.toString(theirs.get(round)));
        }
        String[] names = {"get and put by Zipf, us", "get and put of any, us", "p99.9 by Zipf, us", "p99.9 of any, us",
            "bytes written for one by Zipf", "bytes written for one of any"};
        for (int i = 0; i < names.length; i++) {
            int at = i;
            double our = Stores.median(new ArrayList<>(ours.stream().map(all -> all[at]).toList()));
            double their = Stores.median(new ArrayList<>(theirs.stream().map(all -> all[at]).toList()));
            System.out.printf("%s\tterrace %.2f\trocksdb %.2f\t%.2f times%n", names[i], our, their, their / our);
        }
    }
}
