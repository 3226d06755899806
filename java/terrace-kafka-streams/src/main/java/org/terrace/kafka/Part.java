package org.terrace.kafka;

import java.util.Map;
import java.util.NavigableMap;
import java.util.concurrent.ConcurrentSkipListMap;
import org.apache.kafka.common.utils.Bytes;
import org.terrace.Cursor;
import org.terrace.Database;
import org.terrace.TerraceException;
import org.terrace.Tree;
import org.terrace.WriteBatch;

/**
 * A tree of the engine, and above it what waits for the commit. One thread writes, any number reads.
 *
 * <p>A commit takes the waiting map out of the way only when the engine has all of it, and puts another one in its place: who
 * reads the old one meanwhile still finds everything in it.
 */
final class Part {
    /** In place of a value: it was deleted. */
    static final byte[] GONE = new byte[0];
    /** What a waiting record takes besides its bytes. */
    private static final int ENTRY_BYTES = 96;

    final String structure;
    private volatile Tree tree;
    private volatile NavigableMap<Bytes, byte[]> staged = new ConcurrentSkipListMap<>();

    Part(String structure, Tree tree) {
        this.structure = structure;
        this.tree = tree;
    }

    byte[] get(Bytes key, boolean committedOnly) {
        if (!committedOnly) {
            byte[] waiting = staged.get(key);
            if (waiting != null) {
                return waiting == GONE ? null : waiting;
            }
        }
        Tree tree = this.tree;
        return tree == null ? null : tree.get(key.get());
    }

    /** A null value deletes. Answers by how much more waits now, in bytes. */
    long put(Bytes key, byte[] value) {
        byte[] now = value == null ? GONE : value.length == 0 ? new byte[0] : value;
        byte[] before = staged.put(key, now);
        return now.length - (before == null ? -(key.get().length + ENTRY_BYTES) : before.length);
    }

    /** A record of the changelog, into a batch; what may wait of it is older. */
    void restore(Database db, WriteBatch batch, byte[] key, byte[] value) {
        if (!staged.isEmpty()) {
            staged.remove(Bytes.wrap(key));
        }
        if (value == null) {
            batch.delete(made(db), key);
        } else {
            batch.put(made(db), key, value);
        }
    }

    boolean isStaged() {
        return !staged.isEmpty();
    }

    int stagedCount() {
        return staged.size();
    }

    boolean isMade() {
        return tree != null;
    }

    Tree made(Database db) {
        Tree tree = this.tree;
        if (tree == null) {
            tree = db.tree(structure);
            this.tree = tree;
        }
        return tree;
    }

    void encode(Database db, WriteBatch batch) {
        Tree tree = made(db);
        for (Map.Entry<Bytes, byte[]> entry : staged.entrySet()) {
            byte[] value = entry.getValue();
            if (value == GONE) {
                batch.delete(tree, entry.getKey().get());
            } else {
                batch.put(tree, entry.getKey().get(), value);
            }
        }
    }

    /** The engine has it now. */
    void written() {
        staged = new ConcurrentSkipListMap<>();
    }

    /** Nothing is kept of what waits. */
    void discard() {
        staged = new ConcurrentSkipListMap<>();
    }

    long estimate() {
        Tree tree = this.tree;
        return tree == null ? 0 : tree.estimatedSize();
    }

    /** Records from one key to another, both ends included; null is no end. The waiting map is looked at first: see above. */
    Merged range(Bytes from, Bytes to, boolean reverse, boolean committedOnly) {
        NavigableMap<Bytes, byte[]> waiting = staged;
        if (from != null && to != null && from.compareTo(to) > 0) {
            return new Merged(java.util.Collections.emptyIterator(), null, reverse);
        }
        if (committedOnly) {
            waiting = java.util.Collections.emptyNavigableMap();
        }
        if (from != null) {
            waiting = waiting.tailMap(from, true);
        }
        if (to != null) {
            waiting = waiting.headMap(to, true);
        }
        if (reverse) {
            waiting = waiting.descendingMap();
        }
        Tree tree = this.tree;
        return new Merged(waiting.entrySet().iterator(), tree == null ? null : cursor(tree, from, to, reverse), reverse);
    }

    private static Cursor cursor(Tree tree, Bytes from, Bytes to, boolean reverse) {
        byte[] low = from == null ? null : from.get();
        // The least key above it.
        byte[] high = to == null ? null : java.util.Arrays.copyOf(to.get(), to.get().length + 1);
        try {
            return reverse ? tree.rangeDescending(low, high) : tree.range(low, high);
        } catch (TerraceException e) {
            // A segment that has expired meanwhile has no records any more.
            if (e.kind() == TerraceException.Kind.NO_SUCH_STRUCTURE) {
                return null;
            }
            throw e;
        }
    }
}
