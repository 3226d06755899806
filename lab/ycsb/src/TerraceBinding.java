import java.nio.file.Path;
import org.terrace.Cursor;
import org.terrace.Database;
import org.terrace.Options;
import org.terrace.Terrace;
import org.terrace.Tree;

/** A tree of Terrace. */
public final class TerraceBinding extends Binding {
    private static Database db;
    private static Tree tree;
    private static long before;

    @Override
    void open(String folder, long memory) {
        db = Terrace.open(Path.of(folder), Options.memory(String.valueOf(memory)));
        tree = db.tree("usertable");
        before = counted();
    }

    @Override
    void close() {
        db.close();
    }

    @Override
    byte[] get(byte[] key) {
        return tree.get(key);
    }

    @Override
    void put(byte[] key, byte[] value) {
        tree.put(key, value);
    }

    @Override
    void remove(byte[] key) {
        tree.delete(key);
    }

    @Override
    void from(byte[] key, Taker taker) throws Exception {
        try (Cursor cursor = tree.range(key, null)) {
            while (cursor.next() && taker.take(cursor.key(), cursor.value())) {
                // As many as are wanted.
            }
        }
    }

    @Override
    long pageReads() {
        return counted() - before;
    }

    private static long counted() {
        return db.metrics().lines().filter(line -> line.startsWith("terrace_page_reads_total"))
            .mapToLong(line -> (long) Double.parseDouble(line.substring(line.lastIndexOf(' ')))).sum();
    }
}
