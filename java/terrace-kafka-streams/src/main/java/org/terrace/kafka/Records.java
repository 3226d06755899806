package org.terrace.kafka;

import java.util.NoSuchElementException;
import java.util.function.Function;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.terrace.TerraceException;

/** Records of one part after the other, those that belong to it, as an iterator of Streams. It ends with the store. */
final class Records<K, V> implements KeyValueIterator<K, V> {
    /** What a record comes out as; null: it does not belong to it. */
    interface Shape<K, V> {
        KeyValue<K, V> of(Bytes key, byte[] value);
    }

    private final Store store;
    private final java.util.Iterator<Part> parts;
    private final Function<Part, Merged> range;
    private final Shape<K, V> shape;
    private Merged merged;
    private KeyValue<K, V> next;
    private volatile boolean closed;

    Records(Store store, Iterable<Part> parts, Function<Part, Merged> range, Shape<K, V> shape) {
        this.store = store;
        this.parts = parts.iterator();
        this.range = range;
        this.shape = shape;
        // What is read as of now: later changes are seen or not.
        try {
            look();
        } catch (TerraceException e) {
            close();
            throw store.failed("reading", e);
        }
        store.opened(this);
    }

    static <K, V> KeyValueIterator<K, V> none() {
        return new KeyValueIterator<>() {
            @Override
            public void close() {}

            @Override
            public K peekNextKey() {
                throw new NoSuchElementException();
            }

            @Override
            public boolean hasNext() {
                return false;
            }

            @Override
            public KeyValue<K, V> next() {
                throw new NoSuchElementException();
            }
        };
    }

    private void look() {
        while (next == null) {
            if (merged == null) {
                if (!parts.hasNext()) {
                    return;
                }
                merged = range.apply(parts.next());
            }
            KeyValue<Bytes, byte[]> record;
            try {
                record = merged.peek() == null ? null : merged.next();
            } catch (TerraceException e) {
                if (e.kind() != TerraceException.Kind.NO_SUCH_STRUCTURE) {
                    throw e;
                }
                // The segment has expired meanwhile.
                record = null;
            }
            if (record == null) {
                merged.close();
                merged = null;
            } else {
                next = shape.of(record.key, record.value);
            }
        }
    }

    @Override
    public boolean hasNext() {
        if (closed) {
            throw new InvalidStateStoreException("an iterator of the store " + store.name() + " is closed, or its store is");
        }
        try {
            look();
        } catch (TerraceException e) {
            throw store.failed("reading", e);
        }
        return next != null;
    }

    @Override
    public KeyValue<K, V> next() {
        if (!hasNext()) {
            throw new NoSuchElementException();
        }
        KeyValue<K, V> answer = next;
        next = null;
        return answer;
    }

    @Override
    public K peekNextKey() {
        if (!hasNext()) {
            throw new NoSuchElementException();
        }
        return next.key;
    }

    @Override
    public void close() {
        closed = true;
        store.ended(this);
        if (merged != null) {
            merged.close();
        }
    }
}
