package org.terrace.kafka;

import java.time.Duration;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.HeadersBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowStore;

/**
 * Suppliers of single stores, as those of {@link org.apache.kafka.streams.state.Stores}: for {@code Materialized.as(...)} and
 * the builders there. For all stores of a topology at once there is {@link TerraceDslStoreSuppliers}.
 */
public final class TerraceStores {
    private static final String SCOPE = "terrace";

    private TerraceStores() {}

    /**
     * A store by key whose values are as they are.
     *
     * @param name its name
     * @return its supplier
     */
    public static KeyValueBytesStoreSupplier keyValueStore(String name) {
        return new OfRecords(name, false);
    }

    /**
     * A store by key whose values have a timestamp: what tables of the DSL take.
     *
     * @param name its name
     * @return its supplier
     */
    public static KeyValueBytesStoreSupplier timestampedKeyValueStore(String name) {
        return new OfRecords(name, true);
    }

    /**
     * A store by key whose values have headers and a timestamp.
     *
     * @param name its name
     * @return its supplier
     */
    public static KeyValueBytesStoreSupplier timestampedKeyValueStoreWithHeaders(String name) {
        return new OfRecordsWithHeaders(name);
    }

    /**
     * A store of windows whose values are as they are: what joins of streams take.
     *
     * @param name its name
     * @param retention how long records are kept
     * @param windowSize the length of a window
     * @param retainDuplicates whether all records of a key and a time are kept, not the last one alone
     * @return its supplier
     */
    public static WindowBytesStoreSupplier windowStore(String name, Duration retention, Duration windowSize,
            boolean retainDuplicates) {
        return new OfWindows(name, retention, windowSize, retainDuplicates, false, false);
    }

    /**
     * A store of windows whose values have a timestamp.
     *
     * @param name its name
     * @param retention how long records are kept
     * @param windowSize the length of a window
     * @param retainDuplicates whether all records of a key and a time are kept
     * @return its supplier
     */
    public static WindowBytesStoreSupplier timestampedWindowStore(String name, Duration retention, Duration windowSize,
            boolean retainDuplicates) {
        return new OfWindows(name, retention, windowSize, retainDuplicates, true, false);
    }

    /**
     * A store of windows whose values have headers and a timestamp.
     *
     * @param name its name
     * @param retention how long records are kept
     * @param windowSize the length of a window
     * @param retainDuplicates whether all records of a key and a time are kept
     * @return its supplier
     */
    public static WindowBytesStoreSupplier timestampedWindowStoreWithHeaders(String name, Duration retention, Duration windowSize,
            boolean retainDuplicates) {
        return new OfWindowsWithHeaders(name, retention, windowSize, retainDuplicates, false);
    }

    /**
     * A store of sessions.
     *
     * @param name its name
     * @param retention how long they are kept after they have ended
     * @return its supplier
     */
    public static SessionBytesStoreSupplier sessionStore(String name, Duration retention) {
        return new OfSessions(name, retention);
    }

    /**
     * A store of sessions whose values have headers.
     *
     * @param name its name
     * @param retention how long they are kept after they have ended
     * @return its supplier
     */
    public static SessionBytesStoreSupplier sessionStoreWithHeaders(String name, Duration retention) {
        return new OfSessionsWithHeaders(name, retention);
    }

    /** For windows of which the DSL tells one result, when they close. */
    static WindowBytesStoreSupplier closingWindowStore(String name, Duration retention, Duration windowSize,
            boolean retainDuplicates, boolean headers) {
        return headers ? new OfWindowsWithHeaders(name, retention, windowSize, retainDuplicates, true)
            : new OfWindows(name, retention, windowSize, retainDuplicates, true, true);
    }

    private static class OfRecords implements KeyValueBytesStoreSupplier {
        final String name;
        private final boolean timestamped;

        OfRecords(String name, boolean timestamped) {
            this.name = java.util.Objects.requireNonNull(name, "name cannot be null");
            this.timestamped = timestamped;
        }

        @Override
        public String name() {
            return name;
        }

        @Override
        public KeyValueStore<Bytes, byte[]> get() {
            return timestamped ? new KeyValueRecords.Timestamped(name) : new KeyValueRecords(name);
        }

        @Override
        public String metricsScope() {
            return SCOPE;
        }
    }

    private static final class OfRecordsWithHeaders extends OfRecords implements HeadersBytesStoreSupplier {
        OfRecordsWithHeaders(String name) {
            super(name, true);
        }

        @Override
        public KeyValueStore<Bytes, byte[]> get() {
            return new KeyValueRecords.WithHeaders(name);
        }
    }

    private static class OfWindows implements WindowBytesStoreSupplier {
        final String name;
        final long retention;
        final long windowSize;
        final boolean duplicates;
        final boolean atClose;
        private final boolean timestamped;

        OfWindows(String name, Duration retention, Duration windowSize, boolean duplicates, boolean timestamped, boolean atClose) {
            this.atClose = atClose;
            this.name = java.util.Objects.requireNonNull(name, "name cannot be null");
            this.retention = retention.toMillis();
            this.windowSize = windowSize.toMillis();
            this.duplicates = duplicates;
            this.timestamped = timestamped;
            if (this.retention < 0 || this.windowSize < 0 || this.windowSize > this.retention) {
                throw new IllegalArgumentException("the store " + name + " is to keep windows of " + windowSize + " for "
                    + retention + ", and has to keep them for as long as they are at least");
            }
        }

        @Override
        public String name() {
            return name;
        }

        @Override
        public WindowStore<Bytes, byte[]> get() {
            return timestamped ? new WindowRecords.Timestamped(name, retention, windowSize, duplicates, atClose)
                : new WindowRecords(name, retention, windowSize, duplicates, atClose);
        }

        @Override
        public String metricsScope() {
            return SCOPE;
        }

        @Override
        public long segmentIntervalMs() {
            return Segments.interval(retention);
        }

        @Override
        public long windowSize() {
            return windowSize;
        }

        @Override
        public boolean retainDuplicates() {
            return duplicates;
        }

        @Override
        public long retentionPeriod() {
            return retention;
        }
    }

    private static final class OfWindowsWithHeaders extends OfWindows implements HeadersBytesStoreSupplier {
        OfWindowsWithHeaders(String name, Duration retention, Duration windowSize, boolean duplicates, boolean atClose) {
            super(name, retention, windowSize, duplicates, true, atClose);
        }

        @Override
        public WindowStore<Bytes, byte[]> get() {
            return new WindowRecords.WithHeaders(name, retention, windowSize, duplicates, atClose);
        }
    }

    private static class OfSessions implements SessionBytesStoreSupplier {
        final String name;
        final long retention;

        OfSessions(String name, Duration retention) {
            this.name = java.util.Objects.requireNonNull(name, "name cannot be null");
            this.retention = retention.toMillis();
            if (this.retention < 0) {
                throw new IllegalArgumentException("the store " + name + " cannot keep sessions for " + retention);
            }
        }

        @Override
        public String name() {
            return name;
        }

        @Override
        public SessionStore<Bytes, byte[]> get() {
            return new SessionRecords(name, retention);
        }

        @Override
        public String metricsScope() {
            return SCOPE;
        }

        @Override
        public long segmentIntervalMs() {
            return Segments.interval(retention);
        }

        @Override
        public long retentionPeriod() {
            return retention;
        }
    }

    private static final class OfSessionsWithHeaders extends OfSessions implements HeadersBytesStoreSupplier {
        OfSessionsWithHeaders(String name, Duration retention) {
            super(name, retention);
        }

        @Override
        public SessionStore<Bytes, byte[]> get() {
            return new SessionRecords.WithHeaders(name, retention);
        }
    }
}
