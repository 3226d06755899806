package org.terrace.kafka;

import java.util.List;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.state.HeadersBytesStore;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import org.apache.kafka.streams.state.TimestampedBytesStore;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.terrace.TerraceException;

/** A store of records by key. What Streams puts into the values is for Streams: a class for each format tells it which. */
class KeyValueRecords extends Store implements KeyValueStore<Bytes, byte[]> {
    private static final Logger LOG = LoggerFactory.getLogger(KeyValueRecords.class);

    /** Up to here records are counted, one by one. */
    private static final long COUNTED = 1000;
    private static final long ESTIMATE_NANOS = 1_000_000_000;

    private volatile Part part;
    private volatile List<Part> only = List.of();
    private volatile long estimate;
    private volatile long estimatedAt;

    KeyValueRecords(String name) {
        super(name);
    }

    /** Values begin with a timestamp. */
    static final class Timestamped extends KeyValueRecords implements TimestampedBytesStore {
        Timestamped(String name) {
            super(name);
        }
    }

    /** Values begin with headers and a timestamp. */
    static final class WithHeaders extends KeyValueRecords implements HeadersBytesStore {
        WithHeaders(String name) {
            super(name);
        }
    }

    @Override
    String layout() {
        return "records by key";
    }

    @Override
    void openParts(String prefix) {
        boolean there = engine.db.structures().containsKey(prefix);
        part = new Part(prefix, there ? engine.db.tree(prefix) : null);
        only = List.of(part);
        estimatedAt = 0;
    }

    @Override
    List<Part> parts() {
        return only;
    }

    @Override
    void discardParts() {
        part.discard();
    }

    @Override
    void restore(byte[] key, byte[] value) {
        restored(part, key, value);
    }

    // ---- writing

    @Override
    public void put(Bytes key, byte[] value) {
        check();
        changed(part.put(usable(key, 0), value));
    }

    @Override
    public byte[] putIfAbsent(Bytes key, byte[] value) {
        byte[] there = get(key);
        if (there == null) {
            put(key, value);
        }
        return there;
    }

    @Override
    public void putAll(List<KeyValue<Bytes, byte[]>> records) {
        for (KeyValue<Bytes, byte[]> record : records) {
            put(record.key, record.value);
        }
    }

    @Override
    public byte[] delete(Bytes key) {
        byte[] there = get(key);
        put(key, null);
        return there;
    }

    // ---- reading

    private byte[] get(Bytes key, boolean committedOnly) {
        check();
        try {
            return part.get(notNull(key), committedOnly);
        } catch (TerraceException e) {
            throw failed("reading", e);
        }
    }

    private KeyValueIterator<Bytes, byte[]> range(Bytes from, Bytes to, boolean reverse, boolean committedOnly) {
        check();
        if (from != null && to != null && from.compareTo(to) > 0) {
            LOG.warn("a range of the store {} begins behind its end, so it is empty: keys are compared as bytes, in which negative"
                + " numbers of the usual serializers come last", name());
            return Records.none();
        }
        return new Records<>(this, only, part -> part.range(from, to, reverse, committedOnly), KeyValue::pair);
    }

    private <P> KeyValueIterator<Bytes, byte[]> prefix(P prefix, Serializer<P> serializer, boolean committedOnly) {
        check();
        byte[] begin = serializer.serialize(null, prefix);
        Bytes from = Bytes.wrap(begin);
        Bytes past = past(begin);
        return new Records<>(this, only, part -> part.range(from, past, false, committedOnly),
            (key, value) -> key.equals(past) ? null : KeyValue.pair(key, value));
    }

    /** The least key above all that begin so, or null. */
    private static Bytes past(byte[] prefix) {
        int length = prefix.length;
        while (length > 0 && prefix[length - 1] == -1) {
            length--;
        }
        if (length == 0) {
            return null;
        }
        byte[] past = java.util.Arrays.copyOf(prefix, length);
        past[length - 1]++;
        return Bytes.wrap(past);
    }

    @Override
    public byte[] get(Bytes key) {
        return get(key, false);
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> range(Bytes from, Bytes to) {
        return range(from, to, false, false);
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> reverseRange(Bytes from, Bytes to) {
        return range(from, to, true, false);
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> all() {
        return range(null, null, false, false);
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> reverseAll() {
        return range(null, null, true, false);
    }

    @Override
    public <S extends Serializer<P>, P> KeyValueIterator<Bytes, byte[]> prefixScan(P prefix, S serializer) {
        return prefix(prefix, serializer, false);
    }

    @Override
    public long approximateNumEntries() {
        check();
        try {
            long about = part.estimate() + part.stagedCount();
            if (about > COUNTED) {
                long now = System.nanoTime();
                if (estimatedAt == 0 || now - estimatedAt > ESTIMATE_NANOS) {
                    estimate = about;
                    estimatedAt = now;
                }
                return estimate;
            }
            long count = 0;
            try (Merged all = part.range(null, null, false, false)) {
                while (all.peek() != null) {
                    all.next();
                    count++;
                }
            }
            return count;
        } catch (TerraceException e) {
            throw failed("reading", e);
        }
    }

    /**
     * A view for queries; of 4.4.
     *
     * @param level whether it shows what waits for its commit
     * @return the view
     */
    public ReadOnlyKeyValueStore<Bytes, byte[]> readOnly(IsolationLevel level) {
        return level == IsolationLevel.READ_COMMITTED ? new CommittedView() : this;
    }

    /** Only what was committed. */
    private final class CommittedView implements ReadOnlyKeyValueStore<Bytes, byte[]> {
        @Override
        public byte[] get(Bytes key) {
            return KeyValueRecords.this.get(key, true);
        }

        @Override
        public KeyValueIterator<Bytes, byte[]> range(Bytes from, Bytes to) {
            return KeyValueRecords.this.range(from, to, false, true);
        }

        @Override
        public KeyValueIterator<Bytes, byte[]> reverseRange(Bytes from, Bytes to) {
            return KeyValueRecords.this.range(from, to, true, true);
        }

        @Override
        public KeyValueIterator<Bytes, byte[]> all() {
            return range(null, null);
        }

        @Override
        public KeyValueIterator<Bytes, byte[]> reverseAll() {
            return reverseRange(null, null);
        }

        @Override
        public <S extends Serializer<P>, P> KeyValueIterator<Bytes, byte[]> prefixScan(P prefix, S serializer) {
            return prefix(prefix, serializer, true);
        }

        @Override
        public long approximateNumEntries() {
            return KeyValueRecords.this.approximateNumEntries();
        }
    }
}
