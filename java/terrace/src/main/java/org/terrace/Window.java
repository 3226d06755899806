package org.terrace;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.Collection;

/** Records one after the other: {@code u32 count}, then {@code u32 key, u32 value, bytes} for each, little-endian. */
final class Window {
    private static final VarHandle INT = MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
    /** What comes before a record. */
    static final int HEADER = 8;

    byte[] bytes;
    /** Where it ends. */
    int length;

    Window(int capacity) {
        bytes = new byte[Math.max(capacity, 4)];
        clear();
    }

    void clear() {
        length = 4;
        setInt(bytes, 0, 0);
    }

    static int getInt(byte[] bytes, int at) {
        return (int) INT.get(bytes, at);
    }

    static void setInt(byte[] bytes, int at, int value) {
        INT.set(bytes, at, value);
    }

    int count() {
        return getInt(bytes, 0);
    }

    void add(byte[] key, byte[] value) {
        int more = Math.addExact(Math.addExact(key.length, value.length), HEADER);
        if (bytes.length - length < more) {
            bytes = Arrays.copyOf(bytes, (int) Math.min(Integer.MAX_VALUE - 8, Math.max(bytes.length * 2L, (long) length + more)));
        }
        setInt(bytes, length, key.length);
        setInt(bytes, length + 4, value.length);
        System.arraycopy(key, 0, bytes, length + HEADER, key.length);
        System.arraycopy(value, 0, bytes, length + HEADER + key.length, value.length);
        length += more;
        setInt(bytes, 0, count() + 1);
    }

    /** Most bytes of a length of 31 bits. */
    static final int VARINT = 5;

    /** Writes a length, then the bytes; answers where they end. */
    static int addSized(byte[] to, int at, byte[] data) {
        int left = data.length;
        while (left >= 0x80) {
            to[at++] = (byte) (left | 0x80);
            left >>>= 7;
        }
        to[at++] = (byte) left;
        System.arraycopy(data, 0, to, at, data.length);
        return at + data.length;
    }

    /** Keys, as {@link Native#getAll} takes them. */
    static Window keys(Collection<byte[]> keys) {
        long bytes = 4;
        for (byte[] key : keys) {
            bytes += VARINT + key.length;
        }
        if (bytes > Integer.MAX_VALUE - 8) {
            throw TerraceException.invalid("the keys have more than 2 GiB; ask for fewer at once");
        }
        Window window = new Window((int) bytes);
        for (byte[] key : keys) {
            window.length = addSized(window.bytes, window.length, key);
        }
        setInt(window.bytes, 0, keys.size());
        return window;
    }
}
