package org.terrace;

/**
 * The native side. A handle is a number that the native side checks: a stale or foreign one is an error. Every function
 * may throw {@link TerraceException}. Lengths that are given are checked against the arrays by the JVM.
 */
final class Native {
    static {
        Library.load();
    }

    private Native() {}

    /** Flags of {@link #open}. */
    static final int CREATE = 1;
    static final int DIRECT = 2;
    static final int CONTROL = 4;
    static final int READ_ONLY = 8;

    /** Kinds of structures, and of none in particular. */
    static final int ANY = -1;
    static final int TREE = 0;
    static final int HASH = 1;
    static final int TABLE = 2;
    static final int LSM = 3;

    /** Bounds of a range that are there, and whether they belong to it; and its direction. */
    static final int FROM = 1;
    static final int FROM_EXCLUDED = 2;
    static final int TO = 4;
    static final int TO_INCLUDED = 8;
    static final int DESCENDING = 16;

    static native int version();

    /** The words for kinds of errors, one a line. */
    static native byte[] kinds();

    static native long open(byte[] path, long memory, int pageSize, long logLimit, long keepChanges, int flags, int durability);

    /** Closes the database, with all that belongs to it. Twice is nothing. */
    static native void close(long database);

    /** What {@link #release} gives back. */
    static final int CURSOR = 0;
    static final int SNAPSHOT = 1;
    static final int LOADER = 2;
    static final int STRUCTURE = 3;
    static final int INDEX = 4;
    static final int CHANGES = 5;

    /** Gives back a handle. Twice is nothing. */
    static native void release(long handle, int what);

    // ---- structures

    static native long structure(long database, byte[] name, int kind, int tiers, int inclusive, int logged, boolean expiring,
        byte[] indexes);

    static native int kind(long map);

    static native byte[] name(long map);

    /** A line each: the word of the kind, a space, the name. */
    static native byte[] structures(long of, boolean isSnapshot);

    static native void drop(long database, byte[] name);

    static native void rename(long database, byte[] from, byte[] to);

    // ---- records: of structures and of what they were in a snapshot

    static native byte[] get(long map, byte[] key, int length);

    /** The length of the value, or -1. As much of it as fits is in {@code into}. */
    static native int getInto(long map, byte[] key, int length, byte[] into, int capacity);

    /** For each key a value or null; keys are {@code u32 count}, then {@code varint length, key}. */
    static native byte[][] getAll(long map, byte[] keys, int length);

    static native boolean contains(long map, byte[] key, int length);

    static native boolean isEmpty(long map);

    static native long estimate(long map);

    static native long range(long map, byte[] from, byte[] to, int flags);

    static native long indexRange(long index, byte[] from, byte[] to, int flags);

    /**
     * The next records: {@code u32 count}, then {@code u32 key, u32 value, bytes} for each; none at the end. Answers {@code
     * into}, or another array if the next record is longer than that.
     */
    static native byte[] window(long cursor, byte[] into, int capacity);

    // ---- writing

    static native void put(long map, byte[] key, int keyLength, byte[] value, int valueLength, int durability);

    static native void delete(long map, byte[] key, int length, int durability);

    static native boolean insert(long map, byte[] key, int keyLength, byte[] value, int valueLength, int durability);

    static native byte[] remove(long map, byte[] key, int length, int durability);

    static native void putFor(long map, byte[] key, byte[] value, long millis);

    /** Times are milliseconds since 1970; a negative one is never. */
    static native void putUntil(long map, byte[] key, byte[] value, long time, int durability);

    static native boolean expireIn(long map, byte[] key, long millis);

    static native boolean expireAt(long map, byte[] key, long time);

    /** -1 is never, -2 that there is no record. */
    static native long expires(long map, byte[] key);

    /** What a merge is: see {@link Merge}. */
    static native boolean merge(long map, byte[] key, int length, int what, long number, byte[] one, byte[] two, int durability);

    /** Changes as {@link WriteBatch} encodes them; {@code maps} are what its numbers mean. */
    static native void write(long database, long[] maps, int count, byte[] batch, int length, int durability);

    /** Bounds as those of {@link #range}. How many there were. */
    static native long removeRange(long map, byte[] from, byte[] to, int flags, int durability);

    // ---- changes

    /** From a place on, or from now if it is null; a negative time is the default, the greatest never. */
    static native long changes(long database, byte[] from, long syncEveryMillis, boolean untilNow);

    /** Two handles of eight bytes, little-endian: that of the changes, that of the snapshot. */
    static native byte[] changesWithSnapshot(long database, long syncEveryMillis, boolean untilNow);

    /** As {@link Commit} takes it apart; nothing in it if there is none yet, null if there is none any more. */
    static native byte[] nextCommit(long changes, long mostMillis);

    static native byte[] changesPlace(long changes);

    // ---- loading

    static native long loader(long map);

    /** Records as in a window. */
    static native void load(long loader, byte[] records, int length);

    static native long finish(long loader);

    // ---- tables

    static native byte[] indexes(long table);

    static native long index(long table, byte[] name);

    static native void createIndex(long table, byte[] nameAndSource);

    static native void dropIndex(long table, byte[] name);

    // ---- transactions

    /** What a transaction does, as often as it takes. */
    interface Attempt {
        /** Whether it has not thrown; it keeps what it has thrown. */
        boolean run(long transaction);
    }

    /** Ends with {@code ABORTED} if the attempt that counts has thrown. */
    static native void transaction(long database, int durability, int attempts, boolean reads, Attempt attempt);

    static native byte[] transactionGet(long transaction, long map, byte[] key, int length);

    static native void transactionPut(long transaction, long map, byte[] key, int keyLength, byte[] value, int valueLength);

    static native void transactionDelete(long transaction, long map, byte[] key, int length);

    static native long transactionRange(long transaction, long map, byte[] from, byte[] to, int flags);

    static native long transactionIndexRange(long transaction, long table, byte[] index, byte[] from, byte[] to, int flags);

    // ---- the whole database

    static native long snapshot(long database, long mostMillis);

    static native long snapshotTime(long snapshot);

    static native long snapshotSequence(long snapshot);

    static native long snapshotStructure(long snapshot, byte[] name);

    static native void sync(long database);

    static native void checkpoint(long database);

    static native long mark(long database, byte[] name);

    static native byte[] compact(long database, long bytesPerSecond);

    /** What is wrong, one line each. */
    static native byte[] verify(long of, boolean isSnapshot);

    static native byte[] stats(long database, boolean survey);

    static native byte[] metrics(long database, boolean openMetrics);

    /** As JSON. */
    static native byte[] backup(long database, byte[] set, boolean full, long bytesPerSecond);

    static native byte[] restore(byte[] set, byte[] to, long point, long memory);

    static native byte[] listBackup(byte[] set);

    static native byte[] verifyBackup(byte[] set);
}
