package org.terrace;

import java.lang.ref.Reference;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/**
 * Records by key that can be read: of a structure as it is, or as it was in a snapshot. Any number of threads may use it.
 */
public abstract class Records {
    final long handle;

    Records(long handle) {
        this.handle = handle;
        // Nobody closes a structure: its handle is given back when no object has it any more.
        Handle.CLEANER.register(this, () -> Native.release(handle, Native.STRUCTURE));
    }

    // What a call answers goes through these: an object that is in a call is not lost before its end.

    final void kept() {
        Reference.reachabilityFence(this);
    }

    final byte[] kept(byte[] answer) {
        Reference.reachabilityFence(this);
        return answer;
    }

    final long kept(long answer) {
        Reference.reachabilityFence(this);
        return answer;
    }

    final boolean kept(boolean answer) {
        Reference.reachabilityFence(this);
        return answer;
    }

    /**
     * The name of the structure.
     *
     * @return the name
     */
    public String name() {
        return Utf8.text(kept(Native.name(handle)));
    }

    /**
     * The kind of the structure.
     *
     * @return the kind
     */
    public Kind kind() {
        return Kind.of((int) kept(Native.kind(handle)));
    }

    /**
     * The value of a key.
     *
     * @param key which
     * @return the value in an array of its own, or null
     * @throws TerraceException {@code KEY_TOO_LONG}, {@code IO}, {@code CORRUPT}, {@code CLOSED}
     */
    public byte[] get(byte[] key) {
        return kept(Native.get(handle, key, key.length));
    }

    /**
     * The value of a key, without an array of its own.
     *
     * @param key which
     * @param into gets as much of it as fits
     * @return the length of the value, or -1 if there is none
     */
    public int get(byte[] key, byte[] into) {
        return (int) kept(Native.getInto(handle, key, key.length, into, into.length));
    }

    /**
     * The values of many keys, read from the disk together.
     *
     * @param keys which
     * @return for each of them, in their order, the value or null
     */
    public List<byte[]> getAll(List<byte[]> keys) {
        Window window = Window.keys(keys);
        List<byte[]> values = Arrays.asList(Native.getAll(handle, window.bytes, window.length));
        kept();
        return values;
    }

    /**
     * Whether there is a record of a key.
     *
     * @param key which
     * @return whether
     */
    public boolean containsKey(byte[] key) {
        return kept(Native.contains(handle, key, key.length));
    }

    /**
     * Until when a record is there. Where records do not expire, those that are there never do.
     *
     * @param key which
     * @return the instant, {@link Instant#MAX} for ever, or null if there is no record
     */
    public Instant expires(byte[] key) {
        long time = kept(Native.expires(handle, key));
        return time == -2 ? null : time == -1 ? Instant.MAX : Instant.ofEpochMilli(time);
    }

    /** Milliseconds since 1970, rounded up; -1 is never, and so is what no number says. */
    static long millis(Instant time) {
        if (time == null || time.getEpochSecond() >= Long.MAX_VALUE / 1000) {
            return -1;
        }
        return time.getEpochSecond() < 0 ? 0 : time.plusNanos(999_999).toEpochMilli();
    }

    /** Milliseconds, as many as a number says. */
    static long millis(Duration duration) {
        return duration.isNegative() ? 0 : duration.getSeconds() >= Long.MAX_VALUE / 1000 ? Long.MAX_VALUE : duration.toMillis();
    }

    /**
     * Whether there is no record.
     *
     * @return whether
     */
    public boolean isEmpty() {
        return kept(Native.isEmpty(handle));
    }

    /**
     * How many records there are, about: nobody counts them as they are written.
     *
     * @return an estimate
     */
    public long estimatedSize() {
        return kept(Native.estimate(handle));
    }

    /**
     * All records, in the order of the structure.
     *
     * @return a cursor, which has to be closed
     */
    public Cursor all() {
        return range(null, false, null, false, false);
    }

    Cursor range(byte[] from, boolean fromExcluded, byte[] to, boolean toIncluded, boolean descending) {
        return new Cursor(kept(Native.range(handle, from, to, flags(from, fromExcluded, to, toIncluded, descending))));
    }

    static int flags(byte[] from, boolean fromExcluded, byte[] to, boolean toIncluded, boolean descending) {
        return (from == null ? 0 : Native.FROM | (fromExcluded ? Native.FROM_EXCLUDED : 0))
            | (to == null ? 0 : Native.TO | (toIncluded ? Native.TO_INCLUDED : 0)) | (descending ? Native.DESCENDING : 0);
    }

    /**
     * All records as a stream, in the order of the structure.
     *
     * @return a stream, which has to be closed
     */
    public Stream<Map.Entry<byte[], byte[]>> stream() {
        return all().stream();
    }

    /** The least key that is greater than all that begin so, or null. */
    static byte[] past(byte[] prefix) {
        int length = prefix.length;
        while (length > 0 && prefix[length - 1] == -1) {
            length--;
        }
        if (length == 0) {
            return null;
        }
        byte[] past = Arrays.copyOf(prefix, length);
        past[length - 1]++;
        return past;
    }

    @Override
    public String toString() {
        return getClass().getSimpleName() + " " + name();
    }
}
