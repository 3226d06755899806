import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import java.util.concurrent.atomic.LongAdder;
import site.ycsb.ByteArrayByteIterator;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.DBException;
import site.ycsb.Status;

/**
 * What both bindings of the YCSB client have in common: one store for all threads, the fields of a record as one value, an update
 * that reads the record and writes it with the new fields.
 */
public abstract class Binding extends DB {
    /** Takes a record of a scan. */
    interface Taker {
        boolean take(byte[] key, byte[] value) throws Exception;
    }

    private static int users;
    private static final LongAdder READS = new LongAdder();
    /** What was counted when the memory had filled: reads, pages, the time. */
    private static long[] warm = {0, 0, 0};

    abstract void open(String folder, long memory) throws Exception;

    abstract void close() throws Exception;

    abstract byte[] get(byte[] key) throws Exception;

    abstract void put(byte[] key, byte[] value) throws Exception;

    abstract void remove(byte[] key) throws Exception;

    /** Records from a key on, until enough were taken. */
    abstract void from(byte[] key, Taker taker) throws Exception;

    /** Pages that were read from files so far. */
    abstract long pageReads() throws Exception;

    @Override
    public final void init() throws DBException {
        synchronized (Binding.class) {
            if (users++ > 0) {
                return;
            }
            try {
                open(getProperties().getProperty("folder"), Long.parseLong(getProperties().getProperty("memory")));
                long seconds = Long.parseLong(getProperties().getProperty("warm", "0"));
                Thread timer = new Thread(() -> {
                    try {
                        Thread.sleep(seconds * 1000);
                        warm = counted();
                    } catch (Exception e) {
                        System.err.println(e);
                    }
                });
                timer.setDaemon(true);
                timer.start();
            } catch (Exception e) {
                throw new DBException(e);
            }
        }
    }

    private long[] counted() throws Exception {
        return new long[] {READS.sum(), pageReads(), System.nanoTime()};
    }

    @Override
    public final void cleanup() throws DBException {
        synchronized (Binding.class) {
            if (--users > 0) {
                return;
            }
            try {
                // Each operation of C and F has one read.
                long[] now = counted();
                System.out.printf("[WARM], Reads, %d%n[WARM], Pages, %d%n[WARM], Microseconds, %d%n", now[0] - warm[0], now[1] - warm[1],
                    (now[2] - warm[2]) / 1000);
                close();
            } catch (Exception e) {
                throw new DBException(e);
            }
        }
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static byte[] encoded(Map<String, byte[]> fields) {
        int length = 0;
        for (Map.Entry<String, byte[]> field : fields.entrySet()) {
            length += 2 * Integer.BYTES + field.getKey().length() + field.getValue().length;
        }
        ByteBuffer into = ByteBuffer.allocate(length);
        for (Map.Entry<String, byte[]> field : fields.entrySet()) {
            byte[] name = field.getKey().getBytes(StandardCharsets.ISO_8859_1);
            into.putInt(name.length).put(name).putInt(field.getValue().length).put(field.getValue());
        }
        return into.array();
    }

    static Map<String, byte[]> decoded(byte[] value) {
        Map<String, byte[]> fields = new HashMap<>();
        ByteBuffer from = ByteBuffer.wrap(value);
        while (from.hasRemaining()) {
            byte[] name = new byte[from.getInt()];
            from.get(name);
            byte[] field = new byte[from.getInt()];
            from.get(field);
            fields.put(new String(name, StandardCharsets.ISO_8859_1), field);
        }
        return fields;
    }

    private static void answer(byte[] value, Set<String> wanted, Map<String, ByteIterator> result) {
        decoded(value).forEach((name, field) -> {
            if (wanted == null || wanted.contains(name)) {
                result.put(name, new ByteArrayByteIterator(field));
            }
        });
    }

    private static Status failed(Exception e) {
        System.err.println(e);
        return Status.ERROR;
    }

    @Override
    public final Status read(String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
        READS.increment();
        try {
            byte[] value = get(bytes(key));
            if (value == null) {
                return Status.NOT_FOUND;
            }
            answer(value, fields, result);
            return Status.OK;
        } catch (Exception e) {
            return failed(e);
        }
    }

    @Override
    public final Status scan(String table, String key, int count, Set<String> fields, Vector<HashMap<String, ByteIterator>> result) {
        try {
            from(bytes(key), (found, value) -> {
                HashMap<String, ByteIterator> record = new HashMap<>();
                answer(value, fields, record);
                result.add(record);
                return result.size() < count;
            });
            return Status.OK;
        } catch (Exception e) {
            return failed(e);
        }
    }

    @Override
    public final Status update(String table, String key, Map<String, ByteIterator> values) {
        try {
            byte[] value = get(bytes(key));
            if (value == null) {
                return Status.NOT_FOUND;
            }
            Map<String, byte[]> fields = decoded(value);
            values.forEach((name, field) -> fields.put(name, field.toArray()));
            put(bytes(key), encoded(fields));
            return Status.OK;
        } catch (Exception e) {
            return failed(e);
        }
    }

    @Override
    public final Status insert(String table, String key, Map<String, ByteIterator> values) {
        try {
            Map<String, byte[]> fields = new HashMap<>();
            values.forEach((name, field) -> fields.put(name, field.toArray()));
            put(bytes(key), encoded(fields));
            return Status.OK;
        } catch (Exception e) {
            return failed(e);
        }
    }

    @Override
    public final Status delete(String table, String key) {
        try {
            remove(bytes(key));
            return Status.OK;
        } catch (Exception e) {
            return failed(e);
        }
    }
}
