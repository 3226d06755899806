package org.terrace;

/** An ordered map. */
public final class Tree extends Structure implements OrderedStructure {
    Tree(Database database, long handle) {
        super(database, handle);
    }

    @Override
    public Records records() {
        return this;
    }
}
