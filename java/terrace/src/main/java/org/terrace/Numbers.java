package org.terrace;

/** Numbers as keys and values: eight bytes whose order is that of the numbers. */
public final class Numbers {
    private Numbers() {}

    /**
     * A signed number.
     *
     * @param number which
     * @return its bytes
     */
    public static byte[] encode(long number) {
        return encodeUnsigned(number ^ Long.MIN_VALUE);
    }

    /**
     * An unsigned number.
     *
     * @param number which
     * @return its bytes
     */
    public static byte[] encodeUnsigned(long number) {
        byte[] bytes = new byte[8];
        for (int i = 0; i < 8; i++) {
            bytes[i] = (byte) (number >>> (56 - 8 * i));
        }
        return bytes;
    }

    /**
     * What {@link #encode} has made.
     *
     * @param bytes the bytes
     * @return the number
     */
    public static long decode(byte[] bytes) {
        return decodeUnsigned(bytes) ^ Long.MIN_VALUE;
    }

    /**
     * What {@link #encodeUnsigned} has made.
     *
     * @param bytes the bytes
     * @return the number
     */
    public static long decodeUnsigned(byte[] bytes) {
        if (bytes.length != 8) {
            throw new IllegalArgumentException("a number has eight bytes, not " + bytes.length);
        }
        long number = 0;
        for (byte b : bytes) {
            number = number << 8 | b & 0xff;
        }
        return number;
    }
}
