package org.terrace;

import java.nio.file.Path;

/** Where one begins. */
public final class Terrace {
    private Terrace() {}

    /**
     * Opens a database, or makes it. What was acknowledged before a crash is there again.
     *
     * @param folder where it lies; one process at a time may have it open
     * @param options with what
     * @return the database, which has to be closed
     * @throws TerraceException {@code LOCKED}, {@code MEMORY_TOO_SMALL}, {@code CORRUPT}, {@code IO}, {@code DISK_FULL}, {@code
     *     INVALID}
     */
    public static Database open(Path folder, Options options) {
        return new Database(folder, Native.open(Utf8.of(folder), options.memory, options.pageSize, options.logLimit,
            options.keepChanges, options.flags, options.durability.ordinal()));
    }

    /**
     * The same with 256 MiB of memory.
     *
     * @param folder where it lies
     * @return the database, which has to be closed
     */
    public static Database open(Path folder) {
        return open(folder, Options.defaults());
    }

    /**
     * Opens a database that was closed, and writes nothing.
     *
     * @param folder where it lies
     * @param options with what
     * @return the database, which has to be closed
     * @throws TerraceException {@code NOT_CLOSED} if it has to be recovered first
     */
    public static Database openReadOnly(Path folder, Options options) {
        return open(folder, options.readOnly());
    }

    /**
     * Makes a database of a backup set, in a folder that is not there.
     *
     * @param set the folder of the set
     * @param to the folder of the new database
     * @return what was done, as JSON
     */
    public static String restore(Path set, Path to) {
        return restore(set, to, -1, -1);
    }

    /**
     * The same.
     *
     * @param set the folder of the set
     * @param to the folder of the new database
     * @param point the number of a point, or -1: the newest
     * @param memory bytes of memory to do it with, or -1
     * @return what was done, as JSON
     */
    public static String restore(Path set, Path to, long point, long memory) {
        return Utf8.text(Native.restore(Utf8.of(set), Utf8.of(to), point, memory));
    }

    /**
     * What is in a backup set.
     *
     * @param set the folder of the set
     * @return as JSON
     */
    public static String listBackup(Path set) {
        return Utf8.text(Native.listBackup(Utf8.of(set)));
    }

    /**
     * Reads all of a backup set.
     *
     * @param set the folder of the set
     * @return what is wrong, as JSON
     */
    public static String verifyBackup(Path set) {
        return Utf8.text(Native.verifyBackup(Utf8.of(set)));
    }
}
