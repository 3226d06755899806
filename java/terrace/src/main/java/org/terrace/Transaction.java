package org.terrace;

/**
 * Reads and writes of one instant, or not at all: what {@link Database#transaction} hands to its function. It ends with
 * that. For one thread at a time.
 */
public final class Transaction {
    final long handle;

    Transaction(long handle) {
        this.handle = handle;
    }

    /**
     * The value of a key, as of the transaction's instant and its own writes.
     *
     * @param structure where
     * @param key which
     * @return the value, or null
     * @throws TerraceException {@code CONFLICT} if others have changed meanwhile what was read: the function ends with it
     *     and is run again
     */
    public byte[] get(Structure structure, byte[] key) {
        return structure.kept(Native.transactionGet(handle, structure.handle, key, key.length));
    }

    /**
     * Sets a value when the transaction is committed.
     *
     * @param structure where
     * @param key which
     * @param value what
     */
    public void put(Structure structure, byte[] key, byte[] value) {
        Native.transactionPut(handle, structure.handle, key, key.length, value, value.length);
        structure.kept();
    }

    /**
     * Deletes a record when the transaction is committed.
     *
     * @param structure where
     * @param key which
     */
    public void delete(Structure structure, byte[] key) {
        Native.transactionDelete(handle, structure.handle, key, key.length);
        structure.kept();
    }

    /**
     * The records of a range, which counts as read as a whole.
     *
     * @param structure where, in order
     * @param from the first, or null
     * @param to the end, which does not belong to it, or null
     * @return a cursor, which has to be closed
     */
    public Cursor range(Structure structure, byte[] from, byte[] to) {
        return cursor(structure, from, to, false);
    }

    /**
     * The same from the last to the first.
     *
     * @param structure where, in order
     * @param from the least, or null
     * @param to the end above it, or null
     * @return a cursor, which has to be closed
     */
    public Cursor rangeDescending(Structure structure, byte[] from, byte[] to) {
        return cursor(structure, from, to, true);
    }

    /**
     * The rows of a table in a range of one of its indexes, which counts as read as a whole.
     *
     * @param table where
     * @param index the name of the index
     * @param from the first key of the index, or null
     * @param to the end, which does not belong to it, or null
     * @return a cursor, which has to be closed
     */
    public Cursor indexRange(Table table, String index, byte[] from, byte[] to) {
        int flags = Records.flags(from, false, to, false, false);
        return new Cursor(table.kept(Native.transactionIndexRange(handle, table.handle, Utf8.of(index), from, to, flags)));
    }

    private Cursor cursor(Structure structure, byte[] from, byte[] to, boolean descending) {
        int flags = Records.flags(from, false, to, false, descending);
        return new Cursor(structure.kept(Native.transactionRange(handle, structure.handle, from, to, flags)));
    }
}
