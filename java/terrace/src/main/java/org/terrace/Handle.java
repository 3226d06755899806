package org.terrace;

import java.lang.ref.Cleaner;

/** A number that the native side knows. Who forgets to close one is warned, and it is closed with its database. */
abstract class Handle implements AutoCloseable {
    /** One thread for all that is given back when it is lost. */
    static final Cleaner CLEANER = Cleaner.create();

    final long handle;
    private final Watch watch;

    Handle(long handle, String what) {
        this.handle = handle;
        this.watch = what == null ? null : new Watch(what);
        if (watch != null) {
            CLEANER.register(this, watch);
        }
    }

    @Override
    public abstract void close();

    /** Whether this is the first time. */
    final boolean closing() {
        if (watch == null) {
            return true;
        }
        boolean first = !watch.closed;
        watch.closed = true;
        return first;
    }

    /** Must not know the handle's object. */
    private static final class Watch implements Runnable {
        private final String what;
        private volatile boolean closed;

        Watch(String what) {
            this.what = what;
        }

        @Override
        public void run() {
            if (!closed) {
                System.getLogger("org.terrace").log(System.Logger.Level.WARNING,
                    what + " was not closed before it was lost; it keeps its memory until its database is closed."
                        + " Use try (...)");
            }
        }
    }
}
