package org.terrace;

/** How a structure is made. What is not said is as it was made, or as it is by default. Immutable. */
public final class StructureOptions {
    final int tiers;
    final int inclusive;
    final int logged;
    final boolean expiring;

    private StructureOptions(int tiers, int inclusive, int logged, boolean expiring) {
        this.tiers = tiers;
        this.inclusive = inclusive;
        this.logged = logged;
        this.expiring = expiring;
    }

    /**
     * Nothing is said.
     *
     * @return the defaults
     */
    public static StructureOptions defaults() {
        return new StructureOptions(0, -1, -1, false);
    }

    /**
     * Two tiers, hot records in memory and the rest on disk, or one alone.
     *
     * @param tiers 1 or 2 (the default)
     * @return options with it
     */
    public StructureOptions tiers(int tiers) {
        if (tiers != 1 && tiers != 2) {
            throw new IllegalArgumentException("tiers are 1 or 2, not " + tiers);
        }
        return new StructureOptions(tiers, inclusive, logged, expiring);
    }

    /**
     * Whether a record that is hot stays in the cold tier too.
     *
     * @param inclusive whether
     * @return options with it
     */
    public StructureOptions inclusive(boolean inclusive) {
        return new StructureOptions(tiers, inclusive ? 1 : 0, logged, expiring);
    }

    /**
     * Whether changes are logged. What is not logged is lost back to the last checkpoint.
     *
     * @param logged whether
     * @return options with it
     */
    public StructureOptions logged(boolean logged) {
        return new StructureOptions(tiers, inclusive, logged ? 1 : 0, expiring);
    }

    /**
     * Its records may {@link Structure#putFor expire}. That is so for good.
     *
     * @return options with it
     */
    public StructureOptions expiring() {
        return new StructureOptions(tiers, inclusive, logged, true);
    }
}
