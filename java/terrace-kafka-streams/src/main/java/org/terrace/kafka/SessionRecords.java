package org.terrace.kafka;

import java.nio.ByteBuffer;
import java.util.Collection;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.serialization.BytesDeserializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.SessionWindowedDeserializer;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.HeadersBytesStore;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.ReadOnlySessionStore;
import org.apache.kafka.streams.state.SessionStore;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.terrace.TerraceException;

/** A store of sessions: by key, end and begin, as the changelog has them. They are kept by their ends. */
class SessionRecords extends Store implements SessionStore<Bytes, byte[]> {
    private static final Logger LOG = LoggerFactory.getLogger(SessionRecords.class);
    private static final int SUFFIX = 16;

    private final Segments segments;
    private final SessionWindowedDeserializer<Bytes> windowed = new SessionWindowedDeserializer<>(new BytesDeserializer());
    private long late;

    SessionRecords(String name, long retention) {
        super(name);
        segments = new Segments(retention, false);
    }

    /** Values begin with headers. */
    static final class WithHeaders extends SessionRecords implements HeadersBytesStore {
        WithHeaders(String name, long retention) {
            super(name, retention);
        }
    }

    private static Bytes stored(byte[] key, long end, long start) {
        return Bytes.wrap(ByteBuffer.allocate(key.length + SUFFIX).put(key).putLong(end).putLong(start).array());
    }

    private static long end(byte[] stored) {
        return ByteBuffer.wrap(stored).getLong(stored.length - SUFFIX);
    }

    private static long start(byte[] stored) {
        return ByteBuffer.wrap(stored).getLong(stored.length - SUFFIX / 2);
    }

    @Override
    String layout() {
        return "sessions " + segments.layout();
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
        if (key.length >= SUFFIX && segments.sees(end(key))) {
            restored(segments.part(end(key)), key, value);
        }
    }

    @Override
    public void put(Windowed<Bytes> session, byte[] value) {
        check();
        usable(session.key(), SUFFIX);
        long end = session.window().end();
        if (segments.sees(end)) {
            changed(segments.part(end).put(stored(session.key().get(), end, session.window().start()), value));
        } else {
            if (late++ == 0) {
                LOG.warn("a session of the store {} comes later than it is kept for and is left out; so will others be, which are"
                    + " only counted", name());
            }
            dropped();
            changed(0);
        }
    }

    @Override
    public void remove(Windowed<Bytes> session) {
        check();
        notNull(session.key());
        long end = session.window().end();
        Part part = end < segments.least() ? null : segments.partIfThere(end);
        if (part != null) {
            changed(part.put(stored(session.key().get(), end, session.window().start()), null));
        }
    }

    private byte[] one(Bytes key, long start, long end, boolean committedOnly) {
        check();
        notNull(key);
        Part part = end < segments.least() ? null : segments.partIfThere(end);
        try {
            return part == null ? null : part.get(stored(key.get(), end, start), committedOnly);
        } catch (TerraceException e) {
            if (e.kind() == TerraceException.Kind.NO_SUCH_STRUCTURE) {
                return null;
            }
            throw failed("reading", e);
        }
    }

    /** Sessions that end at least then, at most then, and begin at most then. */
    private KeyValueIterator<Windowed<Bytes>, byte[]> many(Bytes from, Bytes to, long leastEnd, long mostEnd, long mostStart,
            boolean reverse, boolean committedOnly) {
        check();
        if (from != null && to != null && from.compareTo(to) > 0) {
            LOG.warn("a range of the store {} begins behind its end, so it is empty", name());
            return Records.none();
        }
        long least = Math.max(leastEnd, segments.least());
        return new Records<>(this, segments.between(leastEnd, mostEnd, reverse), part -> {
            byte[] suffix = ByteBuffer.allocate(SUFFIX).putLong(segments.last(part)).putLong(-1).array();
            return part.range(from, WindowKeys.above(to, suffix), reverse, committedOnly);
        }, (stored, value) -> {
            byte[] bytes = stored.get();
            if (end(bytes) < least || end(bytes) > mostEnd || start(bytes) > mostStart) {
                return null;
            }
            Bytes key = Bytes.wrap(java.util.Arrays.copyOf(bytes, bytes.length - SUFFIX));
            boolean ours = (from == null || key.compareTo(from) >= 0) && (to == null || key.compareTo(to) <= 0);
            return ours ? KeyValue.pair(windowed.deserialize(null, bytes), value) : null;
        });
    }

    @Override
    public byte[] fetchSession(Bytes key, long start, long end) {
        return one(key, start, end, false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> findSessions(long leastEnd, long mostEnd) {
        // What has closed is asked for when it is forgotten already.
        check();
        segments.told(mostEnd);
        return new Records<>(this, segments.parts(leastEnd, mostEnd, false), part -> part.range(null, null, false, false),
            (stored, value) -> {
                byte[] bytes = stored.get();
                return end(bytes) >= leastEnd && end(bytes) <= mostEnd ? KeyValue.pair(windowed.deserialize(null, bytes), value) : null;
            });
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> findSessions(Bytes key, long leastEnd, long mostStart) {
        return many(notNull(key), key, leastEnd, Long.MAX_VALUE, mostStart, false, false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFindSessions(Bytes key, long leastEnd, long mostStart) {
        return many(notNull(key), key, leastEnd, Long.MAX_VALUE, mostStart, true, false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> findSessions(Bytes from, Bytes to, long leastEnd, long mostStart) {
        return many(from, to, leastEnd, Long.MAX_VALUE, mostStart, false, false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFindSessions(Bytes from, Bytes to, long leastEnd, long mostStart) {
        return many(from, to, leastEnd, Long.MAX_VALUE, mostStart, true, false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetch(Bytes key) {
        return findSessions(key, 0, Long.MAX_VALUE);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetch(Bytes key) {
        return backwardFindSessions(key, 0, Long.MAX_VALUE);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetch(Bytes from, Bytes to) {
        return findSessions(from, to, 0, Long.MAX_VALUE);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetch(Bytes from, Bytes to) {
        return backwardFindSessions(from, to, 0, Long.MAX_VALUE);
    }

    /**
     * A view for queries; of 4.4.
     *
     * @param level whether it shows what waits for its commit
     * @return the view
     */
    public ReadOnlySessionStore<Bytes, byte[]> readOnly(IsolationLevel level) {
        return level == IsolationLevel.READ_COMMITTED ? new CommittedView() : this;
    }

    /** Only what was committed. */
    private final class CommittedView implements ReadOnlySessionStore<Bytes, byte[]> {
        @Override
        public byte[] fetchSession(Bytes key, long start, long end) {
            return one(key, start, end, true);
        }

        @Override
        public KeyValueIterator<Windowed<Bytes>, byte[]> findSessions(Bytes key, long leastEnd, long mostStart) {
            return many(notNull(key), key, leastEnd, Long.MAX_VALUE, mostStart, false, true);
        }

        @Override
        public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFindSessions(Bytes key, long leastEnd, long mostStart) {
            return many(notNull(key), key, leastEnd, Long.MAX_VALUE, mostStart, true, true);
        }

        @Override
        public KeyValueIterator<Windowed<Bytes>, byte[]> findSessions(Bytes from, Bytes to, long leastEnd, long mostStart) {
            return many(from, to, leastEnd, Long.MAX_VALUE, mostStart, false, true);
        }

        @Override
        public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFindSessions(Bytes from, Bytes to, long leastEnd, long mostStart) {
            return many(from, to, leastEnd, Long.MAX_VALUE, mostStart, true, true);
        }

        @Override
        public KeyValueIterator<Windowed<Bytes>, byte[]> fetch(Bytes key) {
            return findSessions(key, 0, Long.MAX_VALUE);
        }

        @Override
        public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetch(Bytes key) {
            return backwardFindSessions(key, 0, Long.MAX_VALUE);
        }

        @Override
        public KeyValueIterator<Windowed<Bytes>, byte[]> fetch(Bytes from, Bytes to) {
            return findSessions(from, to, 0, Long.MAX_VALUE);
        }

        @Override
        public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetch(Bytes from, Bytes to) {
            return backwardFindSessions(from, to, 0, Long.MAX_VALUE);
        }
    }
}
