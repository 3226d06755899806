package org.terrace;

import java.nio.ByteBuffer;
import java.time.Instant;

/** One change of a {@link Commit}. What it has no use for is null. */
public final class Change {
    /** What happened. */
    public enum Op {
        /** Something that this version does not know. */
        OTHER,
        /** The key has this value from now on. */
        PUT,
        /** The key is not there from now on; it may not have been there before. */
        DELETE,
        /** The structure is there from now on. */
        CREATED,
        /** The structure is gone, with all that is in it. */
        DROPPED,
        /** The structure has this name from now on. */
        RENAMED,
        /** Somebody has marked this place. */
        MARKED,
        /** No key of a range is there from now on: from {@link #key()} to before {@link #value()}, or to the end if that is null. */
        DELETE_RANGE
    }

    private final Op op;
    private final Kind kind;
    private final int id;
    private final long millis;
    private final byte[] name;
    private final byte[] key;
    private final byte[] value;

    /** {@code u8 what, u8 kind, u32 structure, u64 ms}, three lengths, of which -1 is none, and their bytes. */
    Change(ByteBuffer commit) {
        int what = commit.get();
        op = what > 0 && what < Op.values().length ? Op.values()[what] : Op.OTHER;
        int number = commit.get();
        kind = number > 0 && number <= Kind.values().length ? Kind.of(number - 1) : null;
        id = commit.getInt();
        millis = commit.getLong();
        int nameLength = commit.getInt();
        int keyLength = commit.getInt();
        int valueLength = commit.getInt();
        name = bytes(commit, nameLength);
        key = bytes(commit, keyLength);
        value = bytes(commit, valueLength);
    }

    private static byte[] bytes(ByteBuffer commit, int length) {
        if (length < 0) {
            return null;
        }
        byte[] bytes = new byte[length];
        commit.get(bytes);
        return bytes;
    }

    /**
     * What happened.
     *
     * @return one of the kinds of changes
     */
    public Op op() {
        return op;
    }

    /**
     * The name of the structure as it was then; null of one that had been dropped before reading began, and of a mark. Who keeps
     * something by structure goes by {@link #id()}, which stays when it is renamed.
     *
     * @return the name, or null
     */
    public String structure() {
        return op == Op.MARKED || name == null ? null : Utf8.text(name);
    }

    /**
     * The number of the structure, which no other one of the database gets.
     *
     * @return the number; 0 of a mark
     */
    public int id() {
        return id;
    }

    /**
     * The kind of the structure.
     *
     * @return the kind, or null where its name is not known
     */
    public Kind kind() {
        return kind;
    }

    /**
     * The key of a put or a delete, and the first one of a range.
     *
     * @return the key, or null; not a copy
     */
    public byte[] key() {
        return key;
    }

    /**
     * The value of a put, and the first key behind a range.
     *
     * @return the value, or null; not a copy
     */
    public byte[] value() {
        return value;
    }

    /**
     * The name of a mark.
     *
     * @return the name, or null
     */
    public String mark() {
        return op == Op.MARKED && name != null ? Utf8.text(name) : null;
    }

    /**
     * When a mark was made, or a put expires.
     *
     * @return the instant, in milliseconds, or null
     */
    public Instant time() {
        return millis == 0 ? null : Instant.ofEpochMilli(millis);
    }

    @Override
    public String toString() {
        String text = op.name().toLowerCase(java.util.Locale.ROOT);
        if (name != null) {
            text += " " + Utf8.text(name);
        }
        return key == null ? text : text + " " + key.length + " bytes";
    }
}
