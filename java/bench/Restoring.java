import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.processor.StateRestoreCallback;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.internals.InternalProcessorContext;
import org.apache.kafka.streams.processor.internals.StateRestoreCallbackAdapter;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.terrace.kafka.TerraceStores;

/**
 * How long it takes to restore a store from a list in memory, a thousand records at a time as Streams does it, in turns with one
 * of RocksDB: microseconds of processor time of the process a record. Arguments: records.
 */
public class Restoring {
    static final int AT_ONCE = 1000;

    /** A store that is asked for by its builder, with its callback taken from what it registers. */
    static final class Caught implements StoreBuilder<KeyValueStore<?, ?>> {
        private final StoreBuilder<? extends StateStore> inner;
        StateRestoreCallback callback;
        StateStore made;

        Caught(StoreBuilder<? extends StateStore> inner) {
            this.inner = inner;
        }

        @Override
        @SuppressWarnings("unchecked")
        public KeyValueStore<?, ?> build() {
            StateStore store = inner.build();
            made = store;
            return (KeyValueStore<?, ?>) Proxy.newProxyInstance(Restoring.class.getClassLoader(),
                new Class<?>[] {KeyValueStore.class}, (proxy, method, arguments) -> {
                    if (method.getName().equals("init")) {
                        arguments = new Object[] {context((StateStoreContext) arguments[0]), store};
                    }
                    return called(store, method, arguments);
                });
        }

        private Object context(StateStoreContext context) {
            return Proxy.newProxyInstance(Restoring.class.getClassLoader(), new Class<?>[] {InternalProcessorContext.class},
                (proxy, method, arguments) -> {
                    if (method.getName().equals("register")) {
                        callback = (StateRestoreCallback) arguments[1];
                    }
                    return called(context, method, arguments);
                });
        }

        static Object called(Object of, java.lang.reflect.Method method, Object[] arguments) throws Throwable {
            try {
                return method.invoke(of, arguments);
            } catch (InvocationTargetException e) {
                throw e.getCause();
            }
        }

        @Override
        public StoreBuilder<KeyValueStore<?, ?>> withCachingEnabled() {
            return this;
        }

        @Override
        public StoreBuilder<KeyValueStore<?, ?>> withCachingDisabled() {
            return this;
        }

        @Override
        public StoreBuilder<KeyValueStore<?, ?>> withLoggingEnabled(Map<String, String> config) {
            return this;
        }

        @Override
        public StoreBuilder<KeyValueStore<?, ?>> withLoggingDisabled() {
            return this;
        }

        @Override
        public Map<String, String> logConfig() {
            return Map.of();
        }

        @Override
        public boolean loggingEnabled() {
            return false;
        }

        @Override
        public String name() {
            return inner.name();
        }
    }

    static long cpu() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    static double restored(boolean terrace, int records) throws Exception {
        Path folder = Files.createTempDirectory("terrace-bench");
        Caught caught = new Caught(org.apache.kafka.streams.state.Stores.keyValueStoreBuilder(
            terrace ? TerraceStores.keyValueStore("s") : org.apache.kafka.streams.state.Stores.persistentKeyValueStore("s"),
            Serdes.ByteArray(), Serdes.ByteArray()).withCachingDisabled().withLoggingDisabled());
        Topology topology = new Topology();
        topology.addStateStore(caught);
        topology.addSource("source", "in");
        Supplier<ContextualProcessor<Object, Object, Void, Void>> nothing = () -> new ContextualProcessor<>() {
            @Override
            public void process(Record<Object, Object> record) {}
        };
        topology.addProcessor("processor", nothing::get, "source");
        topology.connectProcessorAndStateStores("processor", "s");
        try (TopologyTestDriver driver = new TopologyTestDriver(topology, Stores.properties(folder))) {
            var restore = StateRestoreCallbackAdapter.adapt(caught.callback);
            byte[] value = new byte[100];
            long spent = 0;
            for (int n = 0; n < records; n += AT_ONCE) {
                List<ConsumerRecord<byte[], byte[]>> some = new ArrayList<>(AT_ONCE);
                for (int i = n; i < n + AT_ONCE; i++) {
                    // Each key once, in no order.
                    byte[] key = String.format("%016d", i * 2_654_435_761L % records).getBytes();
                    some.add(new ConsumerRecord<>("changelog", 0, i, key, value));
                }
                long begin = cpu();
                restore.restoreBatch(some);
                spent += cpu() - begin;
            }
            long begin = cpu();
            caught.made.commit(Map.of(new TopicPartition("changelog", 0), (long) records));
            return (spent + cpu() - begin) / 1000.0 / records;
        } finally {
            new ProcessBuilder("rm", "-rf", folder.toString()).start().waitFor();
        }
    }

    public static void main(String[] arguments) throws Exception {
        int records = Integer.parseInt(arguments[0]);
        List<Double> ours = new ArrayList<>();
        List<Double> theirs = new ArrayList<>();
        for (int round = 0; round < 4; round++) {
            ours.add(restored(true, records));
            theirs.add(restored(false, records));
        }
        // The first round warms up.
        ours.remove(0);
        theirs.remove(0);
        System.out.printf("restored record\tterrace %.2f us\trocksdb %.2f us\t%.2f times%n", Stores.median(ours), Stores.median(theirs),
            Stores.median(theirs) / Stores.median(ours));
    }
}
