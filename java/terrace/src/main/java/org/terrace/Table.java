package org.terrace;

import java.util.LinkedHashMap;
import java.util.Map;

/** Rows by a primary key, with indexes that change with them. */
public final class Table extends Structure implements OrderedStructure {
    Table(Database database, long handle) {
        super(database, handle);
    }

    @Override
    public Records records() {
        return this;
    }

    /**
     * The indexes that there are.
     *
     * @return by name what each is of, as {@link #createIndex} takes it
     */
    public Map<String, String> indexes() {
        return indexes(kept(Native.indexes(handle)));
    }

    static Map<String, String> indexes(byte[] lines) {
        Map<String, String> indexes = new LinkedHashMap<>();
        for (String line : Utf8.lines(lines)) {
            int at = line.indexOf('=');
            indexes.put(line.substring(0, at), line.substring(at + 1));
        }
        return indexes;
    }

    /**
     * An index, to be read.
     *
     * @param name which
     * @return the index
     * @throws TerraceException {@code NO_SUCH_STRUCTURE}
     */
    public Index index(String name) {
        return new Index(name, kept(Native.index(handle, Utf8.of(name))));
    }

    /**
     * Makes an index of all rows, while others read and write.
     *
     * @param name its name
     * @param source what it is of: {@code "json:/city"}, {@code "csv:2"}, {@code "bytes:0..4"}, or {@code
     *     "unique:json:/email"}
     */
    public void createIndex(String name, String source) {
        Native.createIndex(handle, Utf8.of(name + "=" + source));
        kept();
    }

    /**
     * Drops an index.
     *
     * @param name which
     */
    public void dropIndex(String name) {
        Native.dropIndex(handle, Utf8.of(name));
        kept();
    }
}
