package org.terrace.kafka;

import java.util.Map;
import org.terrace.Options;

/** What the configuration of the application says of Terrace. */
final class Settings {
    /** Memory of all stores of the process: a number of bytes, or {@code "1GiB"}. */
    static final String MEMORY = "terrace.memory";
    /** Bytes of log after which a checkpoint begins: what is replayed after a crash is less than twice as much. */
    static final String LOG_LIMIT = "terrace.log.limit";
    /** How long the engine stays open after its last store was closed, in milliseconds. */
    static final String LINGER = "terrace.linger.ms";
    /** Bytes of a store that wait for its commit, at most, where Streams does not bound them itself. */
    static final String STAGED = "terrace.staged.max.bytes";
    /** Whether {@code terrace top} can look at the engine. */
    static final String CONTROL = "terrace.control";

    private static final String MEMORY_DEFAULT = "256MiB";
    private static final long LINGER_DEFAULT = 10_000;
    private static final String STAGED_DEFAULT = "16MiB";
    /** Keys can be a quarter of a page long: composite keys are long ones. */
    private static final int PAGE = 16 << 10;

    /** One part of the memory in so many: pages in memory are written once for each length of the log. */
    private static final long LOG_PART = 4;
    /** It is replayed in less than a second. */
    private static final long LOG_LEAST = 16 << 20;

    private final Map<String, Object> said;

    Settings(Map<String, Object> said) {
        this.said = said;
    }

    private String text(String name, String otherwise) {
        Object value = said.get(name);
        return value == null ? otherwise : value.toString();
    }

    private long bytes(String name, String otherwise) {
        String text = text(name, otherwise);
        try {
            return Options.bytes(text);
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException(name + ": " + e.getMessage(), e);
        }
    }

    Options options() {
        Options options = Options.memory(memory()).pageSize(PAGE).control(flag(CONTROL, true));
        return options.logLimit(said.get(LOG_LIMIT) == null ? logLimit() : bytes(LOG_LIMIT, ""));
    }

    /** Less than the engine's own default: an application that was killed is to be back soon. */
    private long logLimit() {
        return Math.max(memory() / LOG_PART, LOG_LEAST);
    }

    long memory() {
        return bytes(MEMORY, MEMORY_DEFAULT);
    }

    long linger() {
        String text = text(LINGER, Long.toString(LINGER_DEFAULT));
        try {
            return Math.max(0, Long.parseLong(text.trim()));
        } catch (NumberFormatException e) {
            throw new IllegalArgumentException(LINGER + " is a number of milliseconds, not \"" + text + "\"", e);
        }
    }

    long staged() {
        return bytes(STAGED, STAGED_DEFAULT);
    }

    boolean exactlyOnce() {
        return text("processing.guarantee", "").startsWith("exactly_once");
    }

    /** Of 4.4: Streams itself commits before too much waits, and never without offsets. */
    boolean transactional() {
        return exactlyOnce() && flag(TRANSACTIONAL, false);
    }

    /** {@code StreamsConfig.TRANSACTIONAL_STATE_STORES_CONFIG}, which 4.3 does not have. */
    static final String TRANSACTIONAL = transactionalName();

    private static String transactionalName() {
        try {
            Class<?> config = Class.forName("org.apache.kafka.streams.StreamsConfig");
            return (String) config.getField("TRANSACTIONAL_STATE_STORES_CONFIG").get(null);
        } catch (ReflectiveOperationException e) {
            return "none";
        }
    }

    private boolean flag(String name, boolean otherwise) {
        return Boolean.parseBoolean(text(name, Boolean.toString(otherwise)).trim());
    }
}
