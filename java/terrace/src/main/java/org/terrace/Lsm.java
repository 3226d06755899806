package org.terrace;

/** An ordered map whose cold records lie in levels of packed pages. */
public final class Lsm extends Structure implements OrderedStructure {
    Lsm(Database database, long handle) {
        super(database, handle);
    }

    @Override
    public Records records() {
        return this;
    }
}
