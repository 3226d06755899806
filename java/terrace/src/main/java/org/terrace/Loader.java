package org.terrace;

/**
 * Loads many records at once: they are sorted first, and each page is written once. Nothing is seen before {@link
 * #finish}; who closes it without leaves nothing behind. For one thread at a time.
 */
public final class Loader extends Handle {
    /** Bytes that cross the border together. */
    private static final int GROUP = 256 << 10;

    private final Window window = new Window(GROUP);

    Loader(long handle) {
        super(handle, "a loader");
    }

    /**
     * Adds a record. Of several of one key the last one counts.
     *
     * @param key which
     * @param value what
     * @return this
     */
    public Loader put(byte[] key, byte[] value) {
        if (window.count() > 0 && (long) window.length + key.length + value.length > GROUP) {
            hand();
        }
        window.add(key, value);
        return this;
    }

    private void hand() {
        Native.load(handle, window.bytes, window.length);
        window.clear();
    }

    /**
     * Writes all of them.
     *
     * @return how many keys there were
     */
    public long finish() {
        hand();
        long loaded = Native.finish(handle);
        closing();
        return loaded;
    }

    /** Gives up what was not finished. */
    @Override
    public void close() {
        if (closing()) {
            Native.release(handle, Native.LOADER);
        }
    }
}
