package org.terrace;

import java.nio.charset.StandardCharsets;
import java.util.Locale;

/** What went wrong: {@link #kind()} for programs, the text for people. The text names the way out. */
public final class TerraceException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /** What can go wrong, grouped by what one can do about it. */
    public enum Kind {
        /** A file holds something that Terrace did not write. */
        CORRUPT,
        /** The operating system refused or failed something. */
        IO,
        /** There is no space left. Nothing was changed. */
        DISK_FULL,
        /** An earlier failure has stopped all writes: close the database and open it again. */
        POISONED,
        /** The memory given does not suffice. */
        MEMORY_TOO_SMALL,
        /** The key is longer than the size of a page allows. */
        KEY_TOO_LONG,
        /** The value is longer than a value can be. */
        VALUE_TOO_LONG,
        /** Somebody else has the database open. */
        LOCKED,
        /** The database was not closed, and can be opened to be read only after it was. */
        NOT_CLOSED,
        /** There is no structure of this name. */
        NO_SUCH_STRUCTURE,
        /** There is a structure of this name already. */
        STRUCTURE_EXISTS,
        /** Two rows would have the same key in a unique index. Nothing was changed. */
        DUPLICATE,
        /** The snapshot was given up, as its space was needed. */
        SNAPSHOT_GONE,
        /** The log no longer has the changes from that place on. */
        CHANGES_GONE,
        /** Somebody asked for the end of it. */
        CANCELLED,
        /** The machine went down while a map that survives only its process was open. */
        POWER_LOST,
        /** A transaction was given up, as others kept changing what it had read. Nothing was changed. */
        CONFLICT,
        /** The arguments do not fit. */
        INVALID,
        /** What is used was closed, or belongs to a database that was. */
        CLOSED,
        /** The database was opened by the process that this one was forked from. */
        FORKED,
        /** A defect of Terrace. The database refuses everything until it is opened again. */
        DEFECT,
        /** A callback has failed. Nothing was changed. */
        ABORTED,
        /** A kind that this version does not know. */
        UNKNOWN;

        static Kind of(String word) {
            try {
                return valueOf(word.toUpperCase(Locale.ROOT));
            } catch (IllegalArgumentException unknown) {
                return UNKNOWN;
            }
        }
    }

    /** Which of the kinds it is. */
    private final Kind kind;

    TerraceException(Kind kind, String text) {
        super(text);
        this.kind = kind;
    }

    /** Called by the native side. */
    TerraceException(byte[] kind, byte[] text) {
        this(Kind.of(new String(kind, StandardCharsets.US_ASCII)), new String(text, StandardCharsets.UTF_8));
    }

    static TerraceException invalid(String text) {
        return new TerraceException(Kind.INVALID, text);
    }

    static TerraceException closed(String what) {
        return new TerraceException(Kind.CLOSED, what + " is closed; open it again");
    }

    /**
     * What went wrong.
     *
     * @return its kind
     */
    public Kind kind() {
        return kind;
    }
}
