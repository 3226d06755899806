package org.terrace;

import java.time.Duration;
import java.util.Objects;

/** From where changes are read, and how long. Immutable: each method answers other options. */
public final class ChangesOptions {
    final String from;
    final long syncEvery;
    final boolean untilNow;

    private ChangesOptions(String from, long syncEvery, boolean untilNow) {
        this.from = from;
        this.syncEvery = syncEvery;
        this.untilNow = untilNow;
    }

    /**
     * From now on, for ever.
     *
     * @return the defaults
     */
    public static ChangesOptions defaults() {
        return new ChangesOptions(null, -1, false);
    }

    /**
     * From behind a commit that was seen before.
     *
     * @param place a {@link Commit#place()} or {@link Changes#place()}
     * @return options with it
     */
    public ChangesOptions from(String place) {
        return new ChangesOptions(Objects.requireNonNull(place, "the place"), syncEvery, untilNow);
    }

    /**
     * How long a commit may wait, while somebody waits for it, until it is made durable and given out: a second, if nothing is
     * said.
     *
     * @param every how long; null: only others make it durable
     * @return options with it
     */
    public ChangesOptions syncEvery(Duration every) {
        return new ChangesOptions(from, every == null ? Long.MAX_VALUE : Math.max(0, every.toMillis()), untilNow);
    }

    /**
     * Ends with the last commit that there is when reading begins, instead of waiting for more.
     *
     * @return options with it
     */
    public ChangesOptions untilNow() {
        return new ChangesOptions(from, syncEvery, true);
    }
}
