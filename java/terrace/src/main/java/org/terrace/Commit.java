package org.terrace;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** What was changed at one instant: by a write, a batch, a transaction. */
public final class Commit {
    private static final int PLACE = 64;

    private final long sequence;
    private final String place;
    private final List<Change> changes;

    /** {@code u64 sequence}, the place and a zero byte, {@code u32 count}, the changes. */
    Commit(byte[] bytes) {
        ByteBuffer commit = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        sequence = commit.getLong();
        place = new String(bytes, commit.position(), PLACE, StandardCharsets.US_ASCII);
        commit.position(commit.position() + PLACE + 1);
        int count = commit.getInt();
        List<Change> all = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            all.add(new Change(commit));
        }
        changes = Collections.unmodifiableList(all);
    }

    /**
     * Its number in the order of changes.
     *
     * @return the number
     */
    public long sequence() {
        return sequence;
    }

    /**
     * The place behind it: who has done with it what is to be done keeps this, and goes on from here.
     *
     * @return 64 digits
     */
    public String place() {
        return place;
    }

    /**
     * What was changed, in the order in which it was written.
     *
     * @return the changes
     */
    public List<Change> changes() {
        return changes;
    }

    @Override
    public String toString() {
        return "commit " + sequence + " " + changes;
    }
}
