package org.terrace;

import java.time.Duration;
import java.time.Instant;
import java.util.function.UnaryOperator;

/**
 * A structure of records by key. Writes may fail with {@code KEY_TOO_LONG}, {@code VALUE_TOO_LONG}, {@code DISK_FULL},
 * {@code POISONED}, {@code IO}, {@code CORRUPT} and {@code CLOSED}; in a table also with {@code DUPLICATE}. Any number of
 * threads may use it. It ends with its database.
 */
public abstract class Structure extends Records {
    private final Database database;

    Structure(Database database, long handle) {
        super(handle);
        this.database = database;
    }

    /**
     * The database that it belongs to.
     *
     * @return the database
     */
    public Database database() {
        return database;
    }

    /**
     * Sets the value of a key, without looking at the old one.
     *
     * @param key which
     * @param value what
     */
    public void put(byte[] key, byte[] value) {
        put(key, value, null);
    }

    /**
     * The same.
     *
     * @param key which
     * @param value what
     * @param durability what it promises; null: what the database was opened with
     */
    public void put(byte[] key, byte[] value, Durability durability) {
        Native.put(handle, key, key.length, value, value.length, Durability.number(durability));
        kept();
    }

    /**
     * Deletes the record of a key, without looking whether there is one.
     *
     * @param key which
     */
    public void delete(byte[] key) {
        delete(key, null);
    }

    /**
     * The same.
     *
     * @param key which
     * @param durability what it promises; null: what the database was opened with
     */
    public void delete(byte[] key, Durability durability) {
        Native.delete(handle, key, key.length, Durability.number(durability));
        kept();
    }

    /**
     * Makes a record, unless there is one of this key.
     *
     * @param key which
     * @param value what
     * @return whether it was made
     */
    public boolean insert(byte[] key, byte[] value) {
        return insert(key, value, null);
    }

    /**
     * The same.
     *
     * @param key which
     * @param value what
     * @param durability what it promises; null: what the database was opened with
     * @return whether it was made
     */
    public boolean insert(byte[] key, byte[] value, Durability durability) {
        return kept(Native.insert(handle, key, key.length, value, value.length, Durability.number(durability)));
    }

    /**
     * Deletes the record of a key.
     *
     * @param key which
     * @return the value that it had, or null if there was none
     */
    public byte[] remove(byte[] key) {
        return remove(key, null);
    }

    /**
     * The same.
     *
     * @param key which
     * @param durability what it promises; null: what the database was opened with
     * @return the value that it had, or null if there was none
     */
    public byte[] remove(byte[] key, Durability durability) {
        return kept(Native.remove(handle, key, key.length, Durability.number(durability)));
    }

    /**
     * Changes a value by what it is, inside the engine.
     *
     * @param key which
     * @param merge how
     * @return whether anything was changed
     * @throws TerraceException {@code INVALID} if the value cannot be changed so
     */
    public boolean merge(byte[] key, Merge merge) {
        return merge(key, merge, null);
    }

    /**
     * The same.
     *
     * @param key which
     * @param merge how
     * @param durability what it promises; null: what the database was opened with
     * @return whether anything was changed
     */
    public boolean merge(byte[] key, Merge merge, Durability durability) {
        int durable = Durability.number(durability);
        return kept(Native.merge(handle, key, key.length, merge.what, merge.number, merge.one, merge.two, durable));
    }

    /**
     * Sets a value if it is what one believes.
     *
     * @param key which
     * @param expected the value that it should have; null: none
     * @param value the new one; null: none
     * @return whether it was so
     */
    public boolean compareAndSet(byte[] key, byte[] expected, byte[] value) {
        return merge(key, Merge.compareAndSet(expected, value));
    }

    /**
     * Changes a value by a function of the old one. The function runs again if somebody else was faster; what it throws
     * comes out, and nothing is written then. Nothing is held while it runs.
     *
     * @param key which
     * @param change answers the new value for the old one; null stands for none in both
     * @return the value that it has now, or null
     */
    public byte[] update(byte[] key, UnaryOperator<byte[]> change) {
        while (true) {
            byte[] old = get(key);
            byte[] now = change.apply(old == null ? null : old.clone());
            if (old == null && now == null) {
                return null;
            }
            if (compareAndSet(key, old, now)) {
                return now;
            }
        }
    }

    /**
     * Sets a value that is there for so long: from then on no reader sees it, and its space comes back by and by. The structure
     * has to be made with {@link StructureOptions#expiring}.
     *
     * @param key which
     * @param value what
     * @param duration how long, in milliseconds
     * @throws TerraceException {@code INVALID} where records do not expire
     */
    public void putFor(byte[] key, byte[] value, Duration duration) {
        Native.putFor(handle, key, value, millis(duration));
        kept();
    }

    /**
     * Sets a value that is there until a time; one that has passed removes the key.
     *
     * @param key which
     * @param value what
     * @param time until when; null or {@link Instant#MAX}: for ever
     * @throws TerraceException {@code INVALID} where records do not expire
     */
    public void putUntil(byte[] key, byte[] value, Instant time) {
        Native.putUntil(handle, key, value, millis(time), Durability.number(null));
        kept();
    }

    /**
     * Has a record expire in so long from now on; what it was to do before counts no more.
     *
     * @param key which
     * @param duration how long, in milliseconds; null: never
     * @return whether it is there
     * @throws TerraceException {@code INVALID} where records do not expire
     */
    public boolean expireIn(byte[] key, Duration duration) {
        return kept(Native.expireIn(handle, key, duration == null ? -1 : millis(duration)));
    }

    /**
     * Has a record expire at a time; one that has passed removes the key.
     *
     * @param key which
     * @param time when; null or {@link Instant#MAX}: never
     * @return whether it is there
     * @throws TerraceException {@code INVALID} where records do not expire
     */
    public boolean expireAt(byte[] key, Instant time) {
        return kept(Native.expireAt(handle, key, millis(time)));
    }

    /**
     * Begins to load many records at once, which are sorted first, so that each page is written once.
     *
     * @return a loader, which has to be finished or closed
     */
    public Loader loader() {
        return new Loader(kept(Native.loader(handle)));
    }
}
