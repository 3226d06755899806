package org.terrace;

import java.util.Locale;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** What a database is opened with. Immutable: each method answers other options. */
public final class Options {
    private static final Pattern SIZE = Pattern.compile("\\s*(\\d{1,18})\\s*([a-zA-Z]*)\\s*");
    private static final Map<String, Long> UNITS = Map.of("", 1L, "b", 1L, "k", 1L << 10, "kib", 1L << 10, "m", 1L << 20,
        "mib", 1L << 20, "g", 1L << 30, "gib", 1L << 30, "tib", 1L << 40);

    final long memory;
    final int pageSize;
    final long logLimit;
    final long keepChanges;
    final int flags;
    final Durability durability;

    private Options(long memory, int pageSize, long logLimit, long keepChanges, int flags, Durability durability) {
        this.memory = memory;
        this.pageSize = pageSize;
        this.logLimit = logLimit;
        this.keepChanges = keepChanges;
        this.flags = flags;
        this.durability = durability;
    }

    /**
     * 256 MiB of memory, made if it is missing, around the cache of the operating system, writes that survive a crash of
     * the process.
     *
     * @return the defaults
     */
    public static Options defaults() {
        return new Options(-1, 0, -1, -1, Native.CREATE | Native.DIRECT, Durability.BUFFERED);
    }

    /**
     * Memory for everything that the database keeps. What is handed to you (arrays, batches) is yours.
     *
     * @param bytes how much, in bytes
     * @return options with it
     */
    public static Options memory(long bytes) {
        if (bytes < 0) {
            throw new IllegalArgumentException("the memory of a database is a number of bytes, not " + bytes);
        }
        return new Options(bytes, 0, -1, -1, Native.CREATE | Native.DIRECT, Durability.BUFFERED);
    }

    /**
     * The same, as one writes it.
     *
     * @param size as {@code "256MiB"}, {@code "1GiB"}, {@code "64m"} or {@code "1073741824"}
     * @return options with it
     */
    public static Options memory(String size) {
        return memory(bytes(size));
    }

    /**
     * A number of bytes, as one writes it.
     *
     * @param size as {@code "256MiB"}, {@code "1GiB"}, {@code "64m"} or {@code "1073741824"}
     * @return the number
     */
    public static long bytes(String size) {
        Matcher parts = SIZE.matcher(size);
        Long unit = parts.matches() ? UNITS.get(parts.group(2).toLowerCase(Locale.ROOT)) : null;
        if (unit == null || Long.parseLong(parts.group(1)) > Long.MAX_VALUE / unit) {
            throw new IllegalArgumentException("\"" + size
                + "\" is no number of bytes; write it as 1073741824, \"512MiB\", \"1GiB\" or \"64k\"");
        }
        return Long.parseLong(parts.group(1)) * unit;
    }

    /**
     * The size of a page, fixed when the database is made: 4096, 8192, 16384 (the default), 32768 or 65536. Keys can be
     * a quarter of it, 4096 at most.
     *
     * @param bytes how large
     * @return options with it
     */
    public Options pageSize(int bytes) {
        return new Options(memory, bytes, logLimit, keepChanges, flags, durability);
    }

    /**
     * How much log there is before a checkpoint begins: the larger, the fewer pages are written, and the longer it takes
     * to open after a crash.
     *
     * @param bytes how much
     * @return options with it
     */
    public Options logLimit(long bytes) {
        return new Options(memory, pageSize, bytes, keepChanges, flags, durability);
    }

    /**
     * How much log stays behind checkpoints for who reads the {@link Database#changes changes} and is away; none, if nothing is
     * said. On a full disk it is given up before a write fails.
     *
     * @param bytes how much
     * @return options with it
     */
    public Options keepChanges(long bytes) {
        return new Options(memory, pageSize, logLimit, bytes, flags, durability);
    }

    /**
     * What writes promise that do not say it themselves.
     *
     * @param durability the promise
     * @return options with it
     */
    public Options durability(Durability durability) {
        return new Options(memory, pageSize, logLimit, keepChanges, flags, durability);
    }

    /**
     * Whether the database is made if there is none; it is, if nothing is said.
     *
     * @param create whether
     * @return options with it
     */
    public Options create(boolean create) {
        return with(Native.CREATE, create);
    }

    /**
     * Whether pages go around the cache of the operating system; they do, if nothing is said.
     *
     * @param direct whether
     * @return options with it
     */
    public Options directIo(boolean direct) {
        return with(Native.DIRECT, direct);
    }

    /**
     * Whether a socket in the folder of the database answers {@code terrace top} and other commands of the same user.
     *
     * @param control whether
     * @return options with it
     */
    public Options control(boolean control) {
        return with(Native.CONTROL, control);
    }

    Options readOnly() {
        return with(Native.READ_ONLY, true);
    }

    private Options with(int flag, boolean on) {
        return new Options(memory, pageSize, logLimit, keepChanges, on ? flags | flag : flags & ~flag, durability);
    }
}
