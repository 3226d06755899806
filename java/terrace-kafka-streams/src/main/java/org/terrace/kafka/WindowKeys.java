package org.terrace.kafka;

import java.nio.ByteBuffer;
import org.apache.kafka.common.utils.Bytes;

/**
 * Keys of windows. In the changelog, and in most stores: key, begin (8 bytes), number (4 bytes), so that a key has its windows
 * together. In stores that are asked what has closed: begin, key, number.
 */
final class WindowKeys {
    static final int SUFFIX = 12;
    private static final int TIME = 8;

    private final boolean timeFirst;

    WindowKeys(boolean timeFirst) {
        this.timeFirst = timeFirst;
    }

    boolean isTimeFirst() {
        return timeFirst;
    }

    Bytes of(byte[] key, long start, int number) {
        ByteBuffer to = ByteBuffer.allocate(key.length + SUFFIX);
        return Bytes.wrap((timeFirst ? to.putLong(start).put(key) : to.put(key).putLong(start)).putInt(number).array());
    }

    static boolean isOne(byte[] stored) {
        return stored.length >= SUFFIX;
    }

    long start(byte[] stored) {
        return ByteBuffer.wrap(stored).getLong(timeFirst ? 0 : stored.length - SUFFIX);
    }

    Bytes key(byte[] stored) {
        int begin = timeFirst ? TIME : 0;
        return Bytes.wrap(java.util.Arrays.copyOfRange(stored, begin, begin + stored.length - SUFFIX));
    }

    /** As in the changelog, of one that is stored. */
    byte[] logged(byte[] stored) {
        if (!timeFirst) {
            return stored;
        }
        int key = stored.length - SUFFIX;
        return ByteBuffer.allocate(stored.length).put(stored, TIME, key).put(stored, 0, TIME).put(stored, TIME + key, SUFFIX - TIME)
            .array();
    }

    /** As it is stored, of one in the changelog. */
    byte[] stored(byte[] logged) {
        if (!timeFirst) {
            return logged;
        }
        int key = logged.length - SUFFIX;
        return ByteBuffer.allocate(logged.length).put(logged, key, TIME).put(logged, 0, key).put(logged, key + TIME, SUFFIX - TIME)
            .array();
    }

    /** A key below all of this time or later, in stores by time. */
    static Bytes from(long time) {
        return Bytes.wrap(ByteBuffer.allocate(TIME).putLong(time).array());
    }

    /** A key above all of this time or earlier, in stores by time; null: there is none above. */
    static Bytes upTo(long time) {
        return time == Long.MAX_VALUE ? null : from(time + 1);
    }

    /**
     * A key above all whose own key is not above this one and whose time is not above that one. A shorter key with its time
     * behind it may be above a longer one, where that has zeros.
     */
    static Bytes above(Bytes key, byte[] suffix) {
        if (key == null) {
            return null;
        }
        byte[] own = key.get();
        Bytes most = null;
        for (int length = 0; length <= own.length; length++) {
            Bytes candidate = Bytes.wrap(ByteBuffer.allocate(length + suffix.length).put(own, 0, length).put(suffix).array());
            if (most == null || candidate.compareTo(most) > 0) {
                most = candidate;
            }
        }
        return most;
    }
}
