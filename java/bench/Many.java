import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.terrace.kafka.TerraceStores;

/**
 * Many stores in one process. Arguments: {@code write FOLDER STORES RECORDS} fills them, says how much memory the process has,
 * and ends as if it were killed; {@code open FOLDER STORES 0} says how long it takes until they are open again. With a fourth one,
 * {@code rocksdb}, they are those of RocksDB.
 */
public class Many {
    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[1]);
        int stores = Integer.parseInt(arguments[2]);
        int records = Integer.parseInt(arguments[3]);
        boolean terrace = arguments.length < 5;
        Topology topology = new Topology();
        topology.addSource("source", "in");
        topology.addProcessor("processor", () -> (Processor<Object, Object, Void, Void>) new ContextualProcessor<Object, Object, Void, Void>() {
            private int n;

            @Override
            public void process(Record<Object, Object> record) {
                // Some of each store; the driver commits behind it.
                for (int store = 0; store < stores; store++) {
                    KeyValueStore<String, byte[]> one = context().getStateStore("s" + store);
                    for (int i = 0; i < 100; i++) {
                        one.put(String.format("%012d", (n * 100L + i) * 7919 % records), new byte[100]);
                    }
                }
                n++;
            }
        }, "source");
        for (int store = 0; store < stores; store++) {
            String name = "s" + store;
            topology.addStateStore(org.apache.kafka.streams.state.Stores.keyValueStoreBuilder(
                terrace ? TerraceStores.keyValueStore(name) : org.apache.kafka.streams.state.Stores.persistentKeyValueStore(name),
                Serdes.String(), Serdes.ByteArray()).withCachingDisabled().withLoggingDisabled());
            topology.connectProcessorAndStateStores("processor", name);
        }
        Properties properties = Stores.properties(folder);
        long begin = System.nanoTime();
        TopologyTestDriver driver = new TopologyTestDriver(topology, properties);
        if (arguments[0].equals("open")) {
            KeyValueStore<String, byte[]> last = driver.getKeyValueStore("s" + (stores - 1));
            boolean there = last.get(String.format("%012d", 0)) != null;
            System.out.printf("%d stores are open after\t%d ms\t%s%n", stores, (System.nanoTime() - begin) / 1_000_000,
                there ? "as they were" : "but not with what was in them");
            driver.close();
            return;
        }
        var in = driver.createInputTopic("in", new StringSerializer(), new StringSerializer());
        for (int i = 0; i < records / 100; i++) {
            in.pipeInput("k", "v");
        }
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("VmRSS") || line.startsWith("RssAnon")) {
                System.out.printf("%d stores of %s\t%s%n", stores, terrace ? "terrace" : "rocksdb", line);
            }
        }
        Runtime.getRuntime().halt(9);
    }
}
