package org.terrace;

import java.lang.ref.Reference;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * An open database. Closing it ends all that belongs to it, waits for calls that are under way, and frees the folder. Any
 * number of threads may use it.
 */
public final class Database extends Handle {
    /** How often a transaction is tried, unless it is said. */
    private static final int ATTEMPTS = 100;

    private final Path path;

    Database(Path path, long handle) {
        super(handle, "the database in " + path);
        this.path = path;
    }

    /**
     * Where it lies.
     *
     * @return the folder
     */
    public Path path() {
        return path;
    }

    // ---------------------------------------------------------------- structures

    /**
     * The tree of this name, made if there is none.
     *
     * @param name its name
     * @return the tree
     * @throws TerraceException {@code INVALID} if it is a structure of another kind
     */
    public Tree tree(String name) {
        return tree(name, StructureOptions.defaults());
    }

    /**
     * The same.
     *
     * @param name its name
     * @param options how it is made
     * @return the tree
     */
    public Tree tree(String name, StructureOptions options) {
        return new Tree(this, structure(name, Native.TREE, options, null));
    }

    /**
     * The hash table of this name, made if there is none.
     *
     * @param name its name
     * @return the hash table
     */
    public Hash hash(String name) {
        return hash(name, StructureOptions.defaults());
    }

    /**
     * The same.
     *
     * @param name its name
     * @param options how it is made
     * @return the hash table
     */
    public Hash hash(String name, StructureOptions options) {
        return new Hash(this, structure(name, Native.HASH, options, null));
    }

    /**
     * The LSM-tree of this name, made if there is none.
     *
     * @param name its name
     * @return the LSM-tree
     */
    public Lsm lsm(String name) {
        return lsm(name, StructureOptions.defaults());
    }

    /**
     * The same.
     *
     * @param name its name
     * @param options how it is made
     * @return the LSM-tree
     */
    public Lsm lsm(String name, StructureOptions options) {
        return new Lsm(this, structure(name, Native.LSM, options, null));
    }

    /**
     * The table of this name, made without indexes if there is none; of one that is there, indexes are as they are.
     *
     * @param name its name
     * @return the table
     */
    public Table table(String name) {
        return new Table(this, structure(name, Native.TABLE, StructureOptions.defaults(), null));
    }

    /**
     * The table of this name with just these indexes, made if there is none.
     *
     * @param name its name
     * @param indexes by name what each is of, as {@link Table#createIndex} takes it
     * @return the table
     */
    public Table table(String name, Map<String, String> indexes) {
        return table(name, indexes, StructureOptions.defaults());
    }

    /**
     * The same.
     *
     * @param name its name
     * @param indexes by name what each is of
     * @param options how it is made
     * @return the table
     */
    public Table table(String name, Map<String, String> indexes, StructureOptions options) {
        StringBuilder lines = new StringBuilder();
        indexes.forEach((index, source) -> lines.append(index).append('=').append(source).append('\n'));
        return new Table(this, structure(name, Native.TABLE, options, Utf8.of(lines.toString())));
    }

    private long structure(String name, int kind, StructureOptions options, byte[] indexes) {
        return Native.structure(handle, Utf8.of(name), kind, options.tiers, options.inclusive, options.logged,
            options.expiring, indexes);
    }

    /**
     * A structure that is there, of whatever kind.
     *
     * @param name which
     * @return a {@link Tree}, {@link Hash}, {@link Table} or {@link Lsm}
     * @throws TerraceException {@code NO_SUCH_STRUCTURE}
     */
    public Structure structure(String name) {
        long found = structure(name, Native.ANY, StructureOptions.defaults(), null);
        switch (Kind.of(Native.kind(found))) {
            case TREE:
                return new Tree(this, found);
            case HASH:
                return new Hash(this, found);
            case TABLE:
                return new Table(this, found);
            default:
                return new Lsm(this, found);
        }
    }

    /**
     * The structures that there are.
     *
     * @return names with kinds
     */
    public Map<String, Kind> structures() {
        return structures(handle, false);
    }

    static Map<String, Kind> structures(long of, boolean isSnapshot) {
        Map<String, Kind> structures = new LinkedHashMap<>();
        for (String line : Utf8.lines(Native.structures(of, isSnapshot))) {
            int at = line.indexOf(' ');
            structures.put(line.substring(at + 1), Kind.of(line.substring(0, at)));
        }
        return structures;
    }

    /**
     * Drops a structure with all its records; its space is free again after a while.
     *
     * @param name which
     * @throws TerraceException {@code NO_SUCH_STRUCTURE}
     */
    public void drop(String name) {
        Native.drop(handle, Utf8.of(name));
    }

    /**
     * Gives a structure another name.
     *
     * @param from which
     * @param to its new name
     */
    public void rename(String from, String to) {
        Native.rename(handle, Utf8.of(from), Utf8.of(to));
    }

    // ---------------------------------------------------------------- many changes as one

    /**
     * A batch to be filled.
     *
     * @return an empty one
     */
    public WriteBatch batch() {
        return new WriteBatch(this);
    }

    /**
     * Makes all changes of a batch, or none.
     *
     * @param batch which
     */
    public void write(WriteBatch batch) {
        write(batch, null);
    }

    /**
     * The same.
     *
     * @param batch which; it stays as it is
     * @param durability what it promises; null: what the database was opened with
     */
    public void write(WriteBatch batch, Durability durability) {
        if (batch.database != this) {
            throw TerraceException.invalid("the batch belongs to another database; make it with the one that writes it");
        }
        Native.write(handle, batch.maps, batch.mapCount, batch.bytes, batch.length, Durability.number(durability));
        Reference.reachabilityFence(batch);
    }

    /**
     * What a transaction does.
     *
     * @param <T> what it answers
     * @param <E> what it may throw
     */
    @FunctionalInterface
    public interface Body<T, E extends Exception> {
        /**
         * Reads and writes by {@code transaction}. It may run several times.
         *
         * @param transaction ends when this returns
         * @return the answer
         * @throws E comes out, and nothing is written
         */
        T run(Transaction transaction) throws E;
    }

    /**
     * Runs a function whose reads and writes are of one instant. It runs again while others change what it has read; what it
     * throws comes out, and nothing is written then.
     *
     * @param body what is done
     * @param <T> what it answers
     * @param <E> what it may throw
     * @return what it has answered the last time
     * @throws E what it has thrown
     * @throws TerraceException {@code CONFLICT} after a hundred attempts
     */
    public <T, E extends Exception> T transaction(Body<T, E> body) throws E {
        return transaction(null, ATTEMPTS, body);
    }

    /**
     * The same.
     *
     * @param durability what it promises; null: what the database was opened with
     * @param attempts how often it is tried, at least once
     * @param body what is done
     * @param <T> what it answers
     * @param <E> what it may throw
     * @return what it has answered the last time
     * @throws E what it has thrown
     */
    public <T, E extends Exception> T transaction(Durability durability, int attempts, Body<T, E> body) throws E {
        return run(durability, attempts, false, body);
    }

    /**
     * Runs a function whose reads are of one instant, and which writes nothing. For short reads; a {@link #snapshot()} is for
     * long ones.
     *
     * @param body what is read
     * @param <T> what it answers
     * @param <E> what it may throw
     * @return what it has answered the last time
     * @throws E what it has thrown
     * @throws TerraceException {@code CONFLICT} after a hundred attempts
     */
    public <T, E extends Exception> T read(Body<T, E> body) throws E {
        return run(null, ATTEMPTS, true, body);
    }

    private <T, E extends Exception> T run(Durability durability, int attempts, boolean reads, Body<T, E> body) throws E {
        Running<T, E> running = new Running<>(body);
        try {
            Native.transaction(handle, Durability.number(durability), attempts, reads, running);
        } catch (TerraceException e) {
            if (e.kind() != TerraceException.Kind.ABORTED || running.thrown == null) {
                throw e;
            }
            throw Database.<E>as(running.thrown);
        }
        return running.answer;
    }

    /** What a body throws is an {@code E}, or unchecked. */
    @SuppressWarnings("unchecked")
    private static <E extends Throwable> E as(Throwable thrown) throws E {
        throw (E) thrown;
    }

    /** The attempts of a transaction. Nothing that is thrown crosses the border. */
    private static final class Running<T, E extends Exception> implements Native.Attempt {
        private final Body<T, E> body;
        private T answer;
        private Throwable thrown;

        Running(Body<T, E> body) {
            this.body = body;
        }

        @Override
        public boolean run(long transaction) {
            try {
                answer = body.run(new Transaction(transaction));
                thrown = null;
                return true;
            } catch (Throwable e) {
                thrown = e;
                return false;
            }
        }
    }

    // ---------------------------------------------------------------- everything

    /**
     * Everything as it is now.
     *
     * @return a snapshot, which has to be closed
     */
    public Snapshot snapshot() {
        return new Snapshot(Native.snapshot(handle, -1));
    }

    /**
     * Everything as it was not long ago, for which no checkpoint is made if the last one is young enough.
     *
     * @param age how old it may be
     * @return a snapshot, which has to be closed
     */
    public Snapshot snapshot(Duration age) {
        return new Snapshot(Native.snapshot(handle, Math.max(0, age.toMillis())));
    }

    /**
     * Every commit from now on.
     *
     * @return a reader, which has to be closed
     */
    public Changes changes() {
        return changes(ChangesOptions.defaults());
    }

    /**
     * Every commit from now on, or from a place on that an earlier reading came to: for who keeps something beside the database.
     * What structures without log hold is not in it. For a place to hold over a restart, or where a reader is away for long, say
     * {@link Options#keepChanges}.
     *
     * @param options from where, and how long
     * @return a reader, which has to be closed
     * @throws TerraceException {@code CHANGES_GONE} if the log from that place on is not there any more: begin anew with {@link
     *     #changesWithSnapshot}
     */
    public Changes changes(ChangesOptions options) {
        return Changes.of(this, options);
    }

    /**
     * To begin: everything as it is now, as {@link Changes#snapshot()}, and every commit from there on. No commit is in both,
     * and none in neither.
     *
     * @param options how long; a place in it counts for nothing
     * @return a reader, which has to be closed
     */
    public Changes changesWithSnapshot(ChangesOptions options) {
        return Changes.withSnapshot(this, options);
    }

    /** Waits until all that was written before is on the disk. */
    public void sync() {
        Native.sync(handle);
    }

    /** Makes a checkpoint, and waits for it. */
    public void checkpoint() {
        Native.checkpoint(handle);
    }

    /**
     * Marks this place in the order of changes, durably: a restore can go to it.
     *
     * @param name of the mark
     * @return the number of the last change before it
     */
    public long mark(String name) {
        return Native.mark(handle, Utf8.of(name));
    }

    /**
     * Makes pages full and the file short, while others go on.
     *
     * @param bytesPerSecond how fast; 0 is gentle to others, {@code Long.MAX_VALUE} as fast as can be
     * @return what was done, as JSON
     */
    public String compact(long bytesPerSecond) {
        return Utf8.text(Native.compact(handle, bytesPerSecond));
    }

    /**
     * Reads all of it and looks whether it is whole. Nobody else gets on meanwhile.
     *
     * @return what is wrong, in one sentence each; empty if all is well
     */
    public List<String> verify() {
        return Utf8.lines(Native.verify(handle, false));
    }

    /**
     * The figures, as they are at hand.
     *
     * @return as JSON
     */
    public String stats() {
        return Utf8.text(Native.stats(handle, false));
    }

    /**
     * The figures, with those for which one has to look.
     *
     * @return as JSON
     */
    public String survey() {
        return Utf8.text(Native.stats(handle, true));
    }

    /**
     * The figures as a scraper of Prometheus takes them.
     *
     * @return as text
     */
    public String metrics() {
        return Utf8.text(Native.metrics(handle, false));
    }

    /**
     * Adds a point to a backup set, which is made if it is not there, while others go on.
     *
     * @param set the folder of the set
     * @return what was done, as JSON
     */
    public String backup(Path set) {
        return backup(set, false, 0);
    }

    /**
     * The same.
     *
     * @param set the folder of the set
     * @param full whether all pages are copied, also those that the set has
     * @param bytesPerSecond how fast; 0 is gentle to others, {@code Long.MAX_VALUE} as fast as can be
     * @return what was done, as JSON
     */
    public String backup(Path set, boolean full, long bytesPerSecond) {
        return Utf8.text(Native.backup(handle, Utf8.of(set), full, bytesPerSecond));
    }

    /**
     * Closes it, with all that belongs to it: what is used afterwards answers {@code CLOSED}. Twice is nothing.
     *
     * @throws TerraceException if the last checkpoint fails; it is closed all the same, and nothing is lost
     */
    @Override
    public void close() {
        if (closing()) {
            Native.close(handle);
        }
    }

    @Override
    public String toString() {
        return "Terrace database " + path;
    }
}
