package org.terrace;

import java.lang.ref.Reference;

/** An index of a table. Its cursors answer primary keys with rows. Any number of threads may use it. */
public final class Index {
    private final String name;
    final long handle;

    Index(String name, long handle) {
        this.name = name;
        this.handle = handle;
        // As that of Records.
        Handle.CLEANER.register(this, () -> Native.release(handle, Native.INDEX));
    }

    /**
     * The name of the index.
     *
     * @return the name
     */
    public String name() {
        return name;
    }

    /**
     * The rows with one key of the index.
     *
     * @param key which
     * @return a cursor, which has to be closed
     */
    public Cursor get(byte[] key) {
        return cursor(key, key, true, false);
    }

    /**
     * The rows from one key of the index, inclusive, to another, exclusive, in the order of the index.
     *
     * @param from the first, or null
     * @param to the end, or null
     * @return a cursor, which has to be closed
     */
    public Cursor range(byte[] from, byte[] to) {
        return cursor(from, to, false, false);
    }

    /**
     * The same from the last to the first.
     *
     * @param from the least, or null
     * @param to the end above it, or null
     * @return a cursor, which has to be closed
     */
    public Cursor rangeDescending(byte[] from, byte[] to) {
        return cursor(from, to, false, true);
    }

    /**
     * The rows whose keys in the index begin so.
     *
     * @param prefix the beginning
     * @return a cursor, which has to be closed
     */
    public Cursor prefix(byte[] prefix) {
        return cursor(prefix, Records.past(prefix), false, false);
    }

    private Cursor cursor(byte[] from, byte[] to, boolean toIncluded, boolean descending) {
        long cursor = Native.indexRange(handle, from, to, Records.flags(from, false, to, toIncluded, descending));
        Reference.reachabilityFence(this);
        return new Cursor(cursor);
    }
}
