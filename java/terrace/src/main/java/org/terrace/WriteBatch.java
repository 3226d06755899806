package org.terrace;

import java.time.Instant;
import java.util.Arrays;

/**
 * Changes that are made together, all or none, by {@link Database#write}. It may be written several times, or {@link
 * #clear cleared} and filled anew. For one thread at a time.
 */
public final class WriteBatch implements AutoCloseable {
    private static final int PUT = 0;
    private static final int DELETE = 1;
    private static final int PUT_UNTIL = 2;
    /** Most bytes in front of a key: operation, structure, two lengths. */
    private static final int HEAD = 15;

    final Database database;
    byte[] bytes = new byte[512];
    int length;
    long[] maps = new long[4];
    int mapCount;
    /** What the maps belong to: who fills a batch may forget them before it is written. */
    private Structure[] structures = new Structure[4];
    private int count;
    private int last;

    WriteBatch(Database database) {
        this.database = database;
        clear();
    }

    /**
     * Sets a value.
     *
     * @param structure where, of the same database
     * @param key which
     * @param value what
     * @return this
     */
    public WriteBatch put(Structure structure, byte[] key, byte[] value) {
        begin(PUT, structure, (long) key.length + value.length);
        bytes(key);
        bytes(value);
        end();
        return this;
    }

    /**
     * Sets a value that is there until a time, where records may expire.
     *
     * @param structure where, of the same database
     * @param key which
     * @param value what
     * @param time until when; null or {@link Instant#MAX}: for ever
     * @return this
     */
    public WriteBatch putUntil(Structure structure, byte[] key, byte[] value, Instant time) {
        begin(PUT_UNTIL, structure, (long) key.length + value.length + Long.BYTES);
        bytes(key);
        bytes(value);
        long millis = Records.millis(time);
        Window.setInt(bytes, length, (int) millis);
        Window.setInt(bytes, length + 4, (int) (millis >> 32));
        length += Long.BYTES;
        end();
        return this;
    }

    /**
     * Deletes a record.
     *
     * @param structure where, of the same database
     * @param key which
     * @return this
     */
    public WriteBatch delete(Structure structure, byte[] key) {
        begin(DELETE, structure, key.length);
        bytes(key);
        end();
        return this;
    }

    /**
     * How many changes there are.
     *
     * @return the number
     */
    public int size() {
        return count;
    }

    /**
     * How many bytes they have.
     *
     * @return the number
     */
    public int bytes() {
        return length;
    }

    /** Forgets all changes. */
    public void clear() {
        length = 4;
        count = 0;
        Arrays.fill(structures, 0, mapCount, null);
        mapCount = 0;
        last = -1;
        if (bytes.length > 1 << 20) {
            bytes = new byte[512];
        }
        Window.setInt(bytes, 0, 0);
    }

    private void begin(int what, Structure structure, long more) {
        long needed = length + more + HEAD;
        if (needed > Integer.MAX_VALUE - 8) {
            throw TerraceException.invalid("the batch would have more than 2 GiB; write it in several");
        }
        if (needed > bytes.length) {
            bytes = Arrays.copyOf(bytes, (int) Math.min(Integer.MAX_VALUE - 8, Math.max(bytes.length * 2L, needed)));
        }
        bytes[length] = (byte) what;
        Window.setInt(bytes, length + 1, map(structure));
        length += 5;
    }

    private void end() {
        Window.setInt(bytes, 0, ++count);
    }

    private int map(Structure structure) {
        long handle = structure.handle;
        if (last >= 0 && maps[last] == handle) {
            return last;
        }
        for (int i = 0; i < mapCount; i++) {
            if (maps[i] == handle) {
                return last = i;
            }
        }
        if (mapCount == maps.length) {
            maps = Arrays.copyOf(maps, mapCount * 2);
            structures = Arrays.copyOf(structures, mapCount * 2);
        }
        maps[mapCount] = handle;
        structures[mapCount] = structure;
        return last = mapCount++;
    }

    private void bytes(byte[] data) {
        length = Window.addSized(bytes, length, data);
    }

    /** Forgets all changes. Twice is nothing. */
    @Override
    public void close() {
        clear();
    }
}
