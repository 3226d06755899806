package org.terrace;

/** Records in the order of their keys that can be changed. */
interface OrderedStructure extends OrderedRecords {
    /**
     * Removes the records from one key, inclusive, to another, exclusive. In steps of some hundred, each a batch: it takes
     * long where the range is long, and others go on meanwhile. Whatever ends it early, what lies before a place is gone, and
     * the rest is there.
     *
     * @param from the first, or null: from the least
     * @param to the end, or null: up to the greatest
     * @return how many there were
     */
    default long removeRange(byte[] from, byte[] to) {
        return removeRange(from, to, null);
    }

    /**
     * The same.
     *
     * @param from the first, or null: from the least
     * @param to the end, or null: up to the greatest
     * @param durability what each step promises; null: what the database was opened with
     * @return how many there were
     */
    default long removeRange(byte[] from, byte[] to, Durability durability) {
        int flags = Records.flags(from, false, to, false, false);
        Records records = records();
        return records.kept(Native.removeRange(records.handle, from, to, flags, Durability.number(durability)));
    }

    /**
     * Removes the records whose keys begin so, as {@link #removeRange}.
     *
     * @param prefix the beginning
     * @return how many there were
     */
    default long removePrefix(byte[] prefix) {
        return removeRange(prefix, Records.past(prefix));
    }
}
