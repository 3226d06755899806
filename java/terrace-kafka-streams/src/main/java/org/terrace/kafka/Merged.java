package org.terrace.kafka;

import java.util.Iterator;
import java.util.Map;
import java.util.NoSuchElementException;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.terrace.Cursor;

/** Waiting records and those of the engine as one, by key. What waits is newer. */
final class Merged implements AutoCloseable {
    private final Iterator<Map.Entry<Bytes, byte[]>> staged;
    private final Cursor cursor;
    private final boolean reverse;
    private Map.Entry<Bytes, byte[]> waiting;
    private Bytes committed;
    private KeyValue<Bytes, byte[]> next;

    Merged(Iterator<Map.Entry<Bytes, byte[]>> staged, Cursor cursor, boolean reverse) {
        this.staged = staged;
        this.cursor = cursor;
        this.reverse = reverse;
        stage();
        try {
            step();
        } catch (RuntimeException e) {
            close();
            throw e;
        }
    }

    private void stage() {
        waiting = staged.hasNext() ? staged.next() : null;
    }

    private void step() {
        committed = cursor != null && cursor.next() ? Bytes.wrap(cursor.key()) : null;
    }

    /** The next record, or null; it stays the next one until {@link #next}. */
    KeyValue<Bytes, byte[]> peek() {
        while (next == null && (waiting != null || committed != null)) {
            int order = waiting == null ? 1 : committed == null ? -1 : waiting.getKey().compareTo(committed);
            if (reverse && waiting != null && committed != null) {
                order = -order;
            }
            if (order > 0) {
                next = KeyValue.pair(committed, cursor.value());
                step();
            } else {
                if (waiting.getValue() != Part.GONE) {
                    next = KeyValue.pair(waiting.getKey(), waiting.getValue());
                }
                if (order == 0) {
                    step();
                }
                stage();
            }
        }
        return next;
    }

    KeyValue<Bytes, byte[]> next() {
        KeyValue<Bytes, byte[]> answer = peek();
        if (answer == null) {
            throw new NoSuchElementException();
        }
        next = null;
        return answer;
    }

    @Override
    public void close() {
        if (cursor != null) {
            cursor.close();
        }
    }
}
