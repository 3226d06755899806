package org.terrace.kafka;

import java.nio.ByteBuffer;
import org.apache.kafka.common.utils.Bytes;

/** Keys of windows as they come from the changelog: key, begin (8 bytes), number (4 bytes). */
final class WindowKeys {
    static final int SUFFIX = 12;

    private WindowKeys() {}

    static Bytes of(byte[] key, long start, int number) {
        return Bytes.wrap(ByteBuffer.allocate(key.length + SUFFIX).put(key).putLong(start).putInt(number).array());
    }

    static boolean isOne(byte[] stored) {
        return stored.length >= SUFFIX;
    }

    static long start(byte[] stored) {
        return ByteBuffer.wrap(stored).getLong(stored.length - SUFFIX);
    }

    static Bytes key(byte[] stored) {
        return Bytes.wrap(java.util.Arrays.copyOf(stored, stored.length - SUFFIX));
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
