package org.terrace;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;

/**
 * The commits of a database, each once, in the order in which they happened, and none that a power cut could take back. Any
 * number of threads may use it: each commit goes to one of them. It keeps log until it is closed.
 */
public final class Changes extends Handle {
    /** So soon, in milliseconds, an interrupt is heard. */
    private static final long SLICE = 100;

    private final Snapshot snapshot;
    private volatile boolean ended;

    private Changes(long handle, Snapshot snapshot) {
        super(handle, "a reader of changes");
        this.snapshot = snapshot;
    }

    static Changes of(Database db, ChangesOptions options) {
        byte[] from = options.from == null ? null : Utf8.of(options.from);
        return new Changes(Native.changes(db.handle, from, options.syncEvery, options.untilNow), null);
    }

    static Changes withSnapshot(Database db, ChangesOptions options) {
        byte[] handles = Native.changesWithSnapshot(db.handle, options.syncEvery, options.untilNow);
        ByteBuffer both = ByteBuffer.wrap(handles).order(ByteOrder.LITTLE_ENDIAN);
        long changes = both.getLong();
        return new Changes(changes, new Snapshot(both.getLong()));
    }

    /**
     * The next commit. Waits for it.
     *
     * @return the commit, or null if there is none any more
     * @throws TerraceException {@code CHANGES_GONE} if the log was given up, {@code CANCELLED} if the thread is interrupted,
     *     {@code CLOSED}; after an interrupt one may go on
     * @throws OutOfMemoryError if the heap has no room for it, which ends the reader: begin anew at the place of the last commit
     */
    public Commit next() {
        while (!ended) {
            if (Thread.currentThread().isInterrupted()) {
                throw new TerraceException(TerraceException.Kind.CANCELLED,
                    "the thread was interrupted while it waited for changes; call again to go on");
            }
            Commit commit = within(SLICE);
            if (commit != null) {
                return commit;
            }
        }
        return null;
    }

    /**
     * The next commit, if one comes soon enough.
     *
     * @param most how long to wait, about
     * @return the commit, or null if there is none yet, or {@link #isAtEnd() none any more}
     * @throws TerraceException as {@link #next()}
     */
    public Commit next(Duration most) {
        long end = System.nanoTime() + most.toNanos();
        while (true) {
            long left = Math.max(0, (end - System.nanoTime()) / 1_000_000);
            Commit commit = within(Math.min(left, SLICE));
            if (commit != null || left <= SLICE || ended || Thread.currentThread().isInterrupted()) {
                return commit;
            }
        }
    }

    private Commit within(long millis) {
        byte[] commit = Native.nextCommit(handle, millis);
        if (commit == null) {
            ended = true;
            return null;
        }
        try {
            return commit.length == 0 ? null : new Commit(commit);
        } catch (OutOfMemoryError e) {
            // As the native side does: the next one would follow a gap.
            Native.release(handle, Native.CHANGES);
            throw e;
        }
    }

    /**
     * Whether there are no more: the end that was asked for has come.
     *
     * @return whether
     */
    public boolean isAtEnd() {
        return ended;
    }

    /**
     * The place behind what was given out so far, for {@link ChangesOptions#from}.
     *
     * @return 64 digits
     */
    public String place() {
        return Utf8.text(Native.changesPlace(handle));
    }

    /**
     * Everything as it was before the first commit, if it was {@link Database#changesWithSnapshot asked for}. Close it as soon
     * as it was read.
     *
     * @return the snapshot, or null
     */
    public Snapshot snapshot() {
        return snapshot;
    }

    /** Gives it back, with its snapshot and the log that was kept for it. Twice is nothing. */
    @Override
    public void close() {
        if (closing()) {
            if (snapshot != null) {
                snapshot.close();
            }
            Native.release(handle, Native.CHANGES);
        }
    }
}
