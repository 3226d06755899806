package org.terrace.kafka;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.NavigableMap;
import java.util.concurrent.ConcurrentSkipListMap;
import org.terrace.Database;

/**
 * The parts of a store that forgets: one for each stretch of time. What has expired is dropped whole, behind the commit that
 * has moved the time on: before it, a crash would leave the time as it was and the records gone.
 */
final class Segments {
    /** As Streams has it: half of what is kept, a minute at least. */
    private static final long LEAST_INTERVAL = 60_000;

    /** Commits without the question for what has closed behind which it is not waited for: Streams asks about each second. */
    private static final int ASKS_WITHIN = 1000;
    /** Nobody asks. */
    private static final long NOBODY = Long.MAX_VALUE;

    private final long retention;
    private final long interval;
    private final boolean atClose;
    private final NavigableMap<Long, Part> parts = new ConcurrentSkipListMap<>();
    private volatile long streamTime = -1;
    /** Up to when somebody who asks for what has closed has asked: what is later is not dropped before. */
    private volatile long told = NOBODY;
    private int unasked;
    private String prefix;

    Segments(long retention, boolean atClose) {
        this.retention = retention;
        this.atClose = atClose;
        this.interval = interval(retention);
    }

    static long interval(long retention) {
        return Math.max(retention / 2, LEAST_INTERVAL);
    }

    /** What of it {@link Store#layout} has to say. */
    String layout() {
        return "in segments of " + interval + " ms";
    }

    void open(Database db, String prefix) {
        this.prefix = prefix;
        parts.clear();
        told = NOBODY;
        for (String structure : db.structures().keySet()) {
            if (structure.startsWith(prefix + "@")) {
                parts.put(Long.parseLong(structure.substring(prefix.length() + 1)), new Part(structure, db.tree(structure)));
            }
        }
    }

    void resume(long time) {
        streamTime = time;
    }

    long streamTime() {
        return streamTime;
    }

    /** The least time that is not yet forgotten. What is told when it closes is read one millisecond later. */
    long least() {
        return streamTime - retention + (atClose ? 0 : 1);
    }

    /** Moves the time on; whether a record of this time is kept. */
    boolean sees(long time) {
        streamTime = Math.max(streamTime, time);
        return time > streamTime - retention;
    }

    Part part(long time) {
        return parts.computeIfAbsent(segment(time), id -> new Part(prefix + "@" + id, null));
    }

    /** The part of a time, or null if there is none. */
    Part partIfThere(long time) {
        return parts.get(segment(time));
    }

    private long segment(long time) {
        return Math.floorDiv(time, interval);
    }

    /** The greatest time of a part. */
    long last(Part part) {
        long id = Long.parseLong(part.structure.substring(part.structure.lastIndexOf('@') + 1));
        return (id + 1) * interval - 1;
    }

    /** Somebody tells what has closed, and asks now for all up to this time. */
    void told(long upTo) {
        told = upTo;
        unasked = 0;
    }

    Collection<Part> all() {
        return parts.values();
    }

    /** The parts that may have records of these times. */
    List<Part> between(long from, long to, boolean reverse) {
        return parts(Math.max(from, least()), to, reverse);
    }

    /** The same, with those that are forgotten and not dropped yet. */
    List<Part> parts(long from, long to, boolean reverse) {
        long low = segment(from);
        long high = to == Long.MAX_VALUE ? Long.MAX_VALUE : segment(to);
        if (low > high) {
            return List.of();
        }
        NavigableMap<Long, Part> some = parts.subMap(low, true, high, true);
        return new ArrayList<>((reverse ? some.descendingMap() : some).values());
    }

    /** Behind a commit. */
    void expire(Database db) {
        if (told != NOBODY && ++unasked > ASKS_WITHIN) {
            told = NOBODY;
        }
        long end = Math.min(streamTime - retention, told == NOBODY ? NOBODY : told + 1);
        NavigableMap<Long, Part> gone = parts.headMap(segment(end), false);
        for (Part part : new ArrayList<>(gone.values())) {
            parts.values().remove(part);
            if (part.isMade()) {
                db.drop(part.structure);
            }
        }
    }

    void discard() {
        parts.values().forEach(Part::discard);
    }
}
