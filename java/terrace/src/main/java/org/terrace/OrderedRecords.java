package org.terrace;

import java.util.Map;
import java.util.NavigableMap;
import java.util.stream.Stream;

/** Records in the order of their keys, compared as unsigned bytes: what can be read of them, whoever has them. */
interface OrderedRecords {
    /** The records behind it. */
    Records records();

    /**
     * The records from one key, inclusive, to another, exclusive.
     *
     * @param from the first, or null: from the least
     * @param to the end, or null: up to the greatest
     * @return a cursor, which has to be closed
     */
    default Cursor range(byte[] from, byte[] to) {
        return records().range(from, false, to, false, false);
    }

    /**
     * The same from the last to the first.
     *
     * @param from the least, or null
     * @param to the end above it, which does not belong to it, or null
     * @return a cursor, which has to be closed
     */
    default Cursor rangeDescending(byte[] from, byte[] to) {
        return records().range(from, false, to, false, true);
    }

    /**
     * The records whose keys begin so.
     *
     * @param prefix the beginning
     * @return a cursor, which has to be closed
     */
    default Cursor prefix(byte[] prefix) {
        return records().range(prefix, false, Records.past(prefix), false, false);
    }

    /**
     * The same from the last to the first.
     *
     * @param prefix the beginning
     * @return a cursor, which has to be closed
     */
    default Cursor prefixDescending(byte[] prefix) {
        return records().range(prefix, false, Records.past(prefix), false, true);
    }

    /**
     * The records of a range as a stream.
     *
     * @param from as in {@link #range}
     * @param to as in {@link #range}
     * @return a stream, which has to be closed
     */
    default Stream<Map.Entry<byte[], byte[]>> stream(byte[] from, byte[] to) {
        return range(from, to).stream();
    }

    /**
     * The record of the least key.
     *
     * @return it, or null
     */
    default Map.Entry<byte[], byte[]> first() {
        return OrderedMap.end(range(null, null));
    }

    /**
     * The record of the greatest key.
     *
     * @return it, or null
     */
    default Map.Entry<byte[], byte[]> last() {
        return OrderedMap.end(rangeDescending(null, null));
    }

    /**
     * A view as a map: reads and writes go through. Its order is that of unsigned bytes; {@code size()} counts all records,
     * one by one; {@code put} answers the old value, which costs a look. Arrays as keys are compared by what is in them
     * by the map, but not by {@code equals} of sets that it is compared with.
     *
     * @return the view
     */
    default NavigableMap<byte[], byte[]> asMap() {
        return new OrderedMap(records());
    }
}
