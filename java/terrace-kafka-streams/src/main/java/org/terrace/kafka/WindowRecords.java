package org.terrace.kafka;

import java.nio.ByteBuffer;
import java.util.Collection;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.serialization.BytesDeserializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.TimeWindowedDeserializer;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.HeadersBytesStore;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.ReadOnlyWindowStore;
import org.apache.kafka.streams.state.TimestampedBytesStore;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.terrace.TerraceException;

/** A store of records by key and the begin of a window; {@code atClose}: it is asked for what has closed, by time. */
class WindowRecords extends Store implements WindowStore<Bytes, byte[]> {
    private static final Logger LOG = LoggerFactory.getLogger(WindowRecords.class);

    private final Segments segments;
    private final WindowKeys keys;
    private final boolean duplicates;
    private final TimeWindowedDeserializer<Bytes> windowed;
    private int number;
    private long late;

    WindowRecords(String name, long retention, long windowSize, boolean duplicates, boolean atClose) {
        super(name);
        this.segments = new Segments(retention, atClose);
        this.keys = new WindowKeys(atClose);
        this.duplicates = duplicates;
        windowed = new TimeWindowedDeserializer<>(new BytesDeserializer(), windowSize);
        windowed.setIsChangelogTopic(true);
    }

    /** Values begin with a timestamp. */
    static class Timestamped extends WindowRecords implements TimestampedBytesStore {
        Timestamped(String name, long retention, long windowSize, boolean duplicates, boolean atClose) {
            super(name, retention, windowSize, duplicates, atClose);
        }
    }

    /** Values begin with headers and a timestamp. */
    static final class WithHeaders extends Timestamped implements HeadersBytesStore {
        WithHeaders(String name, long retention, long windowSize, boolean duplicates, boolean atClose) {
            super(name, retention, windowSize, duplicates, atClose);
        }
    }

    @Override
    String layout() {
        return "windows by " + (keys.isTimeFirst() ? "time, " : "key, ") + segments.layout();
    }

    @Override
    void openParts(String prefix) {
        segments.open(engine.db, prefix);
    }

    @Override
    Collection<Part> parts() {
        return segments.all();
    }

    @Override
    long streamTime() {
        return segments.streamTime();
    }

    @Override
    void resume(long streamTime) {
        segments.resume(streamTime);
    }

    @Override
    void expire() {
        segments.expire(engine.db);
    }

    @Override
    void discardParts() {
        segments.discard();
    }

    @Override
    void restore(byte[] key, byte[] value) {
        if (WindowKeys.isOne(key)) {
            byte[] stored = keys.stored(key);
            long start = keys.start(stored);
            if (segments.sees(start)) {
                restored(segments.part(start), stored, value);
            }
        }
    }

    @Override
    public void put(Bytes key, byte[] value, long start) {
        check();
        usable(key, WindowKeys.SUFFIX);
        if (value == null && duplicates) {
            // There is none that this could mean.
            return;
        }
        number = duplicates ? number + 1 & Integer.MAX_VALUE : 0;
        if (segments.sees(start)) {
            changed(segments.part(start).put(keys.of(key.get(), start, number), value));
        } else {
            if (late++ == 0) {
                LOG.warn("a record of the store {} comes later than it is kept for and is left out; so will others be, which are"
                    + " only counted", name());
            }
            dropped();
            changed(0);
        }
    }

    @Override
    public byte[] fetch(Bytes key, long time) {
        return fetch(key, time, false);
    }

    private byte[] fetch(Bytes key, long time, boolean committedOnly) {
        check();
        notNull(key);
        Part part = time < segments.least() ? null : segments.partIfThere(time);
        try {
            return part == null ? null : part.get(keys.of(key.get(), time, duplicates ? number : 0), committedOnly);
        } catch (TerraceException e) {
            if (e.kind() == TerraceException.Kind.NO_SUCH_STRUCTURE) {
                return null;
            }
            throw failed("reading", e);
        }
    }

    private WindowStoreIterator<byte[]> one(Bytes key, long from, long to, boolean reverse, boolean committedOnly) {
        check();
        notNull(key);
        long least = Math.max(from, segments.least());
        int length = key.get().length + WindowKeys.SUFFIX;
        // By time, those of other keys lie between, as longer keys that begin as this one with a time do otherwise.
        Bytes low = keys.of(key.get(), Math.max(0, least), 0);
        Bytes high = keys.of(key.get(), Math.max(0, to), -1);
        Records<Long, byte[]> records = new Records<>(this, segments.between(from, to, reverse),
            part -> part.range(low, high, reverse, committedOnly), (stored, value) -> {
                byte[] bytes = stored.get();
                return bytes.length == length && inside(keys.start(bytes), least, to) && keys.key(bytes).equals(key)
                    ? KeyValue.pair(keys.start(bytes), value) : null;
            });
        return new WindowStoreIterator<>() {
            @Override
            public void close() {
                records.close();
            }

            @Override
            public Long peekNextKey() {
                return records.peekNextKey();
            }

            @Override
            public boolean hasNext() {
                return records.hasNext();
            }

            @Override
            public KeyValue<Long, byte[]> next() {
                return records.next();
            }
        };
    }

    private static boolean inside(long time, long from, long to) {
        return time >= from && time <= to;
    }

    private KeyValueIterator<Windowed<Bytes>, byte[]> many(Bytes from, Bytes to, long timeFrom, long timeTo, boolean reverse,
            boolean committedOnly) {
        return many(from, to, timeFrom, timeTo, segments.least(), reverse, committedOnly);
    }

    /** Those of times below {@code oldest} do not come. */
    private KeyValueIterator<Windowed<Bytes>, byte[]> many(Bytes from, Bytes to, long timeFrom, long timeTo, long oldest,
            boolean reverse, boolean committedOnly) {
        check();
        if (from != null && to != null && from.compareTo(to) > 0) {
            LOG.warn("a range of the store {} begins behind its end, so it is empty", name());
            return Records.none();
        }
        long least = Math.max(timeFrom, oldest);
        return new Records<>(this, segments.parts(least, timeTo, reverse), part -> {
            if (keys.isTimeFirst()) {
                return part.range(WindowKeys.from(Math.max(0, least)), WindowKeys.upTo(timeTo), reverse, committedOnly);
            }
            // The times of a part are below its end.
            byte[] suffix = ByteBuffer.allocate(WindowKeys.SUFFIX).putLong(segments.last(part)).putInt(-1).array();
            return part.range(from, WindowKeys.above(to, suffix), reverse, committedOnly);
        }, (stored, value) -> {
            byte[] bytes = stored.get();
            if (!inside(keys.start(bytes), least, timeTo)) {
                return null;
            }
            Bytes key = keys.key(bytes);
            boolean ours = (from == null || key.compareTo(from) >= 0) && (to == null || key.compareTo(to) <= 0);
            return ours ? KeyValue.pair(windowed.deserialize(null, keys.logged(bytes)), value) : null;
        });
    }

    @Override
    public WindowStoreIterator<byte[]> fetch(Bytes key, long from, long to) {
        return one(key, from, to, false, false);
    }

    @Override
    public WindowStoreIterator<byte[]> backwardFetch(Bytes key, long from, long to) {
        return one(key, from, to, true, false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetch(Bytes from, Bytes to, long timeFrom, long timeTo) {
        return many(from, to, timeFrom, timeTo, false, false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetch(Bytes from, Bytes to, long timeFrom, long timeTo) {
        return many(from, to, timeFrom, timeTo, true, false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetchAll(long timeFrom, long timeTo) {
        if (keys.isTimeFirst()) {
            // What has closed is asked for when it is forgotten already.
            segments.told(timeTo);
            return many(null, null, timeFrom, timeTo, timeFrom, false, false);
        }
        return many(null, null, timeFrom, timeTo, false, false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetchAll(long timeFrom, long timeTo) {
        return many(null, null, timeFrom, timeTo, true, false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> all() {
        return many(null, null, 0, Long.MAX_VALUE, false, false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardAll() {
        return many(null, null, 0, Long.MAX_VALUE, true, false);
    }

    /**
     * A view for queries; of 4.4.
     *
     * @param level whether it shows what waits for its commit
     * @return the view
     */
    public ReadOnlyWindowStore<Bytes, byte[]> readOnly(IsolationLevel level) {
        return level == IsolationLevel.READ_COMMITTED ? new CommittedView() : this;
    }

    /** Only what was committed. */
    private final class CommittedView implements ReadOnlyWindowStore<Bytes, byte[]> {
        @Override
        public byte[] fetch(Bytes key, long time) {
            return WindowRecords.this.fetch(key, time, true);
        }

        @Override
        public WindowStoreIterator<byte[]> fetch(Bytes key, java.time.Instant from, java.time.Instant to) {
            return one(key, from.toEpochMilli(), to.toEpochMilli(), false, true);
        }

        @Override
        public WindowStoreIterator<byte[]> backwardFetch(Bytes key, java.time.Instant from, java.time.Instant to) {
            return one(key, from.toEpochMilli(), to.toEpochMilli(), true, true);
        }

        @Override
        public KeyValueIterator<Windowed<Bytes>, byte[]> fetch(Bytes from, Bytes to, java.time.Instant timeFrom,
                java.time.Instant timeTo) {
            return many(from, to, timeFrom.toEpochMilli(), timeTo.toEpochMilli(), false, true);
        }

        @Override
        public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetch(Bytes from, Bytes to, java.time.Instant timeFrom,
                java.time.Instant timeTo) {
            return many(from, to, timeFrom.toEpochMilli(), timeTo.toEpochMilli(), true, true);
        }

        @Override
        public KeyValueIterator<Windowed<Bytes>, byte[]> fetchAll(java.time.Instant timeFrom, java.time.Instant timeTo) {
            return many(null, null, timeFrom.toEpochMilli(), timeTo.toEpochMilli(), false, true);
        }

        @Override
        public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetchAll(java.time.Instant timeFrom, java.time.Instant timeTo) {
            return many(null, null, timeFrom.toEpochMilli(), timeTo.toEpochMilli(), true, true);
        }

        @Override
        public KeyValueIterator<Windowed<Bytes>, byte[]> all() {
            return many(null, null, 0, Long.MAX_VALUE, false, true);
        }

        @Override
        public KeyValueIterator<Windowed<Bytes>, byte[]> backwardAll() {
            return many(null, null, 0, Long.MAX_VALUE, true, true);
        }
    }
}
