package org.terrace;

import java.util.AbstractMap.SimpleImmutableEntry;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Spliterator;
import java.util.Spliterators;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/**
 * Goes through records. It stands before the first one until {@link #next}. Records cross the border many at a time; what
 * others change meanwhile is seen or not. For one thread at a time. It has to be closed, and ends with its database.
 */
public final class Cursor extends Handle {
    /** Room for the first records. */
    private static final int FIRST = 4 << 10;
    /** As much as the native side hands over at once, but for a record that is longer. */
    private static final int MOST = 1 << 20;

    private byte[] window = new byte[FIRST];
    private int left;
    /** Where the record begins that comes next. */
    private int next;
    private int key;
    private int keyLength = -1;
    private int valueLength;
    private boolean ended;

    Cursor(long handle) {
        super(handle, "a cursor");
    }

    /**
     * Goes to the next record.
     *
     * @return whether there is one
     * @throws TerraceException {@code CLOSED}, {@code IO}, {@code CORRUPT}; {@code CONFLICT} in a transaction
     * @throws OutOfMemoryError if the heap has no room for a long record, which ends the cursor
     */
    public boolean next() {
        if (left == 0 && !fill()) {
            keyLength = -1;
            return false;
        }
        left--;
        keyLength = Window.getInt(window, next);
        valueLength = Window.getInt(window, next + 4);
        key = next + Window.HEADER;
        next = key + keyLength + valueLength;
        return true;
    }

    private boolean fill() {
        if (ended) {
            return false;
        }
        if (next > window.length / 2 && window.length < MOST) {
            // What is read far is read in large pieces.
            window = new byte[Math.min(window.length * 4, MOST)];
        }
        window = Native.window(handle, window, window.length);
        left = Window.getInt(window, 0);
        next = 4;
        ended = left == 0;
        return !ended;
    }

    /** Whether a record is at hand without crossing the border, or there is none any more. */
    boolean isNear() {
        return left > 0 || ended;
    }

    private void check() {
        if (keyLength < 0) {
            throw new NoSuchElementException("the cursor stands at no record; next() has to answer true first");
        }
    }

    /**
     * The key of the record.
     *
     * @return an array of its own
     */
    public byte[] key() {
        check();
        byte[] bytes = new byte[keyLength];
        System.arraycopy(window, key, bytes, 0, keyLength);
        return bytes;
    }

    /**
     * The value of the record.
     *
     * @return an array of its own
     */
    public byte[] value() {
        check();
        byte[] bytes = new byte[valueLength];
        System.arraycopy(window, key + keyLength, bytes, 0, valueLength);
        return bytes;
    }

    /**
     * The key of the record, without an array of its own.
     *
     * @param into gets as much of it as fits
     * @return its length
     */
    public int key(byte[] into) {
        check();
        System.arraycopy(window, key, into, 0, Math.min(keyLength, into.length));
        return keyLength;
    }

    /**
     * The value of the record, without an array of its own.
     *
     * @param into gets as much of it as fits
     * @return its length
     */
    public int value(byte[] into) {
        check();
        System.arraycopy(window, key + keyLength, into, 0, Math.min(valueLength, into.length));
        return valueLength;
    }

    Map.Entry<byte[], byte[]> entry() {
        return new SimpleImmutableEntry<>(key(), value());
    }

    /** The records that come, as a stream that closes the cursor. */
    Stream<Map.Entry<byte[], byte[]>> stream() {
        var all = new Spliterators.AbstractSpliterator<Map.Entry<byte[], byte[]>>(Long.MAX_VALUE,
            Spliterator.ORDERED | Spliterator.NONNULL | Spliterator.DISTINCT) {
            @Override
            public boolean tryAdvance(java.util.function.Consumer<? super Map.Entry<byte[], byte[]>> use) {
                if (!next()) {
                    return false;
                }
                use.accept(entry());
                return true;
            }
        };
        return StreamSupport.stream(all, false).onClose(this::close);
    }

    /** Gives it back. Twice is nothing. */
    @Override
    public void close() {
        if (closing()) {
            // Whoever goes on is told by the native side.
            ended = false;
            left = 0;
            keyLength = -1;
            Native.release(handle, Native.CURSOR);
        }
    }
}
