package org.terrace;

/** What a write promises when it has returned. */
public enum Durability {
    /** It survives a crash of the process. */
    BUFFERED,
    /** It survives a power cut: the write waits until it is on the disk. */
    SYNC;

    /** The number that the native side knows; -1 is what the database was opened with. */
    static int number(Durability durability) {
        return durability == null ? -1 : durability.ordinal();
    }
}
