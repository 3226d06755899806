package org.terrace;

import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.NavigableMap;

/** Everything as it was at one instant. It keeps space on the disk until it is closed. Any number of threads may use it. */
public final class Snapshot extends Handle {
    Snapshot(long handle) {
        super(handle, "a snapshot");
    }

    /**
     * When it was taken.
     *
     * @return the instant, in milliseconds
     */
    public Instant time() {
        return Instant.ofEpochMilli(Native.snapshotTime(handle));
    }

    /**
     * The number of the last commit in it.
     *
     * @return the number
     */
    public long sequence() {
        return Native.snapshotSequence(handle);
    }

    /**
     * The names of its structures.
     *
     * @return the names
     */
    public List<String> names() {
        return new ArrayList<>(Database.structures(handle, true).keySet());
    }

    /**
     * A structure as it was.
     *
     * @param name which
     * @return its records; the ordered methods answer errors for a hash table
     * @throws TerraceException {@code NO_SUCH_STRUCTURE}, {@code SNAPSHOT_GONE}
     */
    public Of structure(String name) {
        return new Of(Native.snapshotStructure(handle, Utf8.of(name)));
    }

    /**
     * Reads all of it and looks whether it is whole.
     *
     * @return what is wrong, in one sentence each; empty if all is well
     */
    public List<String> verify() {
        return Utf8.lines(Native.verify(handle, true));
    }

    /** Gives it back, with all that belongs to it. Twice is nothing. */
    @Override
    public void close() {
        if (closing()) {
            Native.release(handle, Native.SNAPSHOT);
        }
    }

    /** The records of a structure, as they were. */
    public static final class Of extends Records implements OrderedRecords {
        Of(long handle) {
            super(handle);
        }

        @Override
        public Records records() {
            return this;
        }

        /**
         * A view as a map that nobody can change.
         *
         * @return the view
         */
        @Override
        public NavigableMap<byte[], byte[]> asMap() {
            return OrderedRecords.super.asMap();
        }
    }
}
