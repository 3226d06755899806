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
    private boolean closed;

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
        // Who closes the store has either found this one or was before it.
        if (!store.isOpen()) {
            close();
            store.check();
        }
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

    /** Not while another thread closes the store, and this with it. */
    private synchronized void look() {
        if (closed) {
            throw new InvalidStateStoreException("an iterator of the store " + store.name() + " is closed, or its store is");
        }
        while (next == null) {
            if (merged == null && !parts.hasNext()) {
                return;
            }
            KeyValue<Bytes, byte[]> record;
            try {
                merged = merged == null ? range.apply(parts.next()) : merged;
                record = merged.peek() == null ? null : merged.next();
            } catch (TerraceException e) {
                if (e.kind() != TerraceException.Kind.NO_SUCH_STRUCTURE) {
                    throw e;
                }
                // The segment has expired meanwhile.
                record = null;
            }
            if (record != null) {
                next = shape.of(record.key, record.value);
            } else if (merged != null) {
                merged.close();
                merged = null;
            }
        }
    }

    @Override
    public boolean hasNext() {
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
    public synchronized void close() {
        closed = true;
        store.ended(this);
        if (merged != null) {
            merged.close();
        }
    }
}
