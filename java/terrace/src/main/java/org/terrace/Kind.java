package org.terrace;

/** The kinds of structures. */
public enum Kind {
    /** Ordered, in pages. */
    TREE,
    /** Without order. */
    HASH,
    /** Rows by a primary key, with indexes. */
    TABLE,
    /** Ordered, in levels that are merged. */
    LSM;

    static Kind of(String word) {
        try {
            return valueOf(word.toUpperCase(java.util.Locale.ROOT));
        } catch (IllegalArgumentException unknown) {
            return of(-1);
        }
    }

    static Kind of(int number) {
        if (number < 0 || number >= values().length) {
            throw TerraceException.invalid("this jar is older than the structure; take one of the same build as the library");
        }
        return values()[number];
    }
}
