package org.terrace;

/** A change of a value that is worked out from the one that is there. Immutable. */
public final class Merge {
    static final int ADD = 0;
    static final int ADD_UNSIGNED = 1;
    static final int MIN = 2;
    static final int MAX = 3;
    static final int APPEND = 4;
    static final int SET_IF_ABSENT = 5;
    static final int COMPARE_AND_SET = 6;

    final int what;
    final long number;
    final byte[] one;
    final byte[] two;

    private Merge(int what, long number, byte[] one, byte[] two) {
        this.what = what;
        this.number = number;
        this.one = one;
        this.two = two;
    }

    /**
     * Adds to a number as {@link Numbers#encode(long)} makes it; none counts as 0.
     *
     * @param number what is added
     * @return the change
     */
    public static Merge add(long number) {
        return new Merge(ADD, number, null, null);
    }

    /**
     * Adds to a number as {@link Numbers#encodeUnsigned(long)} makes it; none counts as 0.
     *
     * @param number what is added
     * @return the change
     */
    public static Merge addUnsigned(long number) {
        return new Merge(ADD_UNSIGNED, number, null, null);
    }

    /**
     * Keeps the lesser one, as unsigned bytes.
     *
     * @param value the other one
     * @return the change
     */
    public static Merge min(byte[] value) {
        return new Merge(MIN, 0, value.clone(), null);
    }

    /**
     * Keeps the greater one, as unsigned bytes.
     *
     * @param value the other one
     * @return the change
     */
    public static Merge max(byte[] value) {
        return new Merge(MAX, 0, value.clone(), null);
    }

    /**
     * Appends to the value.
     *
     * @param value what
     * @param limit how long it may become; a longer one is an error
     * @return the change
     */
    public static Merge append(byte[] value, long limit) {
        return new Merge(APPEND, limit, value.clone(), null);
    }

    /**
     * Sets the value if there is none.
     *
     * @param value which
     * @return the change
     */
    public static Merge setIfAbsent(byte[] value) {
        return new Merge(SET_IF_ABSENT, 0, value.clone(), null);
    }

    /**
     * Sets the value if it is what one believes.
     *
     * @param expected the value that it should have; null: none
     * @param value the new one; null: none
     * @return the change
     */
    public static Merge compareAndSet(byte[] expected, byte[] value) {
        return new Merge(COMPARE_AND_SET, 0, expected == null ? null : expected.clone(), value == null ? null : value.clone());
    }
}
