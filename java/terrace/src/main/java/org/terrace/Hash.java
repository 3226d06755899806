package org.terrace;

/** A map without order. */
public final class Hash extends Structure {
    Hash(Database database, long handle) {
        super(database, handle);
    }
}
