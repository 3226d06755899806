import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.util.function.IntConsumer;
import org.terrace.*;

/** What calls cost, in nanoseconds of processor time, the least of some rounds: the same as native/examples/base.rs. */
public class Bars {
    static final int RECORDS = 20_000;
    static final int KEYS = 4096;
    static long sink;

    static long cpu() {
        return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
    }

    static void best(String name, int calls, IntConsumer run) {
        double least = Double.MAX_VALUE;
        for (int round = 0; round < 8; round++) {
            long begin = cpu();
            run.accept(calls);
            least = Math.min(least, (cpu() - begin) / (double) calls);
        }
        System.out.printf("java\t%s\t%.1f%n", name, least);
    }

    static byte[] key(long n) {
        return String.format("%016d", n).getBytes();
    }

    public static void main(String[] arguments) {
        try (Database db = Terrace.open(Path.of(arguments[0]), Options.memory("512MiB"))) {
            Tree tree = db.tree("t");
            byte[] value = new byte[100];
            for (int n = 0; n < RECORDS; n++) {
                tree.put(key(n), value);
            }
            byte[][] keys = new byte[KEYS][];
            for (int i = 0; i < KEYS; i++) {
                keys[i] = key(i * 2_654_435_761L % RECORDS);
            }
            byte[] into = new byte[128];
            best("get into an array", 200_000, calls -> {
                for (int i = 0; i < calls; i++) {
                    sink += tree.get(keys[i % KEYS], into);
                }
            });
            best("get, a new array", 200_000, calls -> {
                for (int i = 0; i < calls; i++) {
                    sink += tree.get(keys[i % KEYS]).length;
                }
            });
            best("put", 50_000, calls -> {
                for (int i = 0; i < calls; i++) {
                    tree.put(keys[i % KEYS], value);
                }
            });
            best("put, 1,000 in a batch", 50_000, calls -> {
                try (WriteBatch batch = db.batch()) {
                    for (int group = 0; group < calls / 1000; group++) {
                        batch.clear();
                        for (int i = 0; i < 1000; i++) {
                            batch.put(tree, keys[(i + group) % KEYS], value);
                        }
                        db.write(batch);
                    }
                }
            });
            Tree big = db.tree("long");
            try (Loader loader = big.loader()) {
                for (int n = 0; n < 1_000_000; n++) {
                    loader.put(key(n), value);
                }
                loader.finish();
            }
            best("a record of a cursor over a million", 1_000_000, calls -> {
                try (Cursor all = big.all()) {
                    while (all.next()) {
                        sink += all.key(into) + all.value(into);
                    }
                }
            });
        }
    }
}
