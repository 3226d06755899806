package org.terrace;

import java.util.AbstractMap;
import java.util.AbstractSet;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Iterator;
import java.util.Map;
import java.util.NavigableMap;
import java.util.NavigableSet;
import java.util.NoSuchElementException;
import java.util.Objects;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;

/** Ordered records, or a range of them, as a map. It keeps nothing: every call goes to the engine. */
final class OrderedMap extends AbstractMap<byte[], byte[]> implements NavigableMap<byte[], byte[]> {
    private static final Comparator<byte[]> ORDER = Arrays::compareUnsigned;

    private final Records records;
    private final byte[] low;
    private final boolean lowIncluded;
    private final byte[] high;
    private final boolean highIncluded;
    private final boolean descending;

    OrderedMap(Records records) {
        this(records, null, true, null, true, false);
    }

    private OrderedMap(Records records, byte[] low, boolean lowIncluded, byte[] high, boolean highIncluded, boolean descending) {
        this.records = records;
        this.low = low;
        this.lowIncluded = lowIncluded;
        this.high = high;
        this.highIncluded = highIncluded;
        this.descending = descending;
    }

    // ---- what belongs to it

    private boolean tooLow(byte[] key) {
        int order = low == null ? 1 : ORDER.compare(key, low);
        return order < 0 || order == 0 && !lowIncluded;
    }

    private boolean tooHigh(byte[] key) {
        int order = high == null ? -1 : ORDER.compare(key, high);
        return order > 0 || order == 0 && !highIncluded;
    }

    private boolean has(byte[] key) {
        return !tooLow(key) && !tooHigh(key);
    }

    private byte[] inside(byte[] key) {
        if (!has(Objects.requireNonNull(key))) {
            throw new IllegalArgumentException("the key is outside of this part of the map");
        }
        return key;
    }

    private Structure writable() {
        if (records instanceof Structure) {
            return (Structure) records;
        }
        throw new UnsupportedOperationException("what was in a snapshot cannot be changed");
    }

    /** The range between two keys (null: what this has), in one of the directions of the engine. */
    private Cursor cursor(byte[] from, boolean fromIncluded, byte[] to, boolean toIncluded, boolean downwards) {
        if (from == null || tooLow(from)) {
            from = low;
            fromIncluded = lowIncluded;
        }
        if (to == null || tooHigh(to)) {
            to = high;
            toIncluded = highIncluded;
        }
        return records.range(from, !fromIncluded, to, toIncluded, downwards);
    }

    static Map.Entry<byte[], byte[]> end(Cursor cursor) {
        try (cursor) {
            return cursor.next() ? cursor.entry() : null;
        }
    }

    /** The nearest record above a key, or below it, in the order of the engine. */
    private Map.Entry<byte[], byte[]> near(byte[] key, boolean included, boolean upwards) {
        Objects.requireNonNull(key);
        if (upwards) {
            return tooHigh(key) ? null : end(cursor(key, included, null, true, false));
        }
        return tooLow(key) ? null : end(cursor(null, true, key, included, true));
    }

    private static byte[] keyOf(Map.Entry<byte[], byte[]> entry) {
        return entry == null ? null : entry.getKey();
    }

    private static byte[] keyThere(Map.Entry<byte[], byte[]> entry) {
        if (entry == null) {
            throw new NoSuchElementException("the map is empty");
        }
        return entry.getKey();
    }

    // ---- one key

    @Override
    public byte[] get(Object key) {
        byte[] bytes = (byte[]) key;
        return has(bytes) ? records.get(bytes) : null;
    }

    @Override
    public boolean containsKey(Object key) {
        byte[] bytes = (byte[]) key;
        return has(bytes) && records.containsKey(bytes);
    }

    @Override
    public byte[] put(byte[] key, byte[] value) {
        Objects.requireNonNull(value);
        byte[][] old = new byte[1][];
        writable().update(inside(key), was -> {
            old[0] = was;
            return value;
        });
        return old[0];
    }

    @Override
    public byte[] remove(Object key) {
        byte[] bytes = (byte[]) key;
        Structure structure = writable();
        return has(bytes) ? structure.remove(bytes) : null;
    }

    @Override
    public byte[] putIfAbsent(byte[] key, byte[] value) {
        Structure structure = writable();
        inside(key);
        while (!structure.insert(key, value)) {
            byte[] there = structure.get(key);
            if (there != null) {
                return there;
            }
        }
        return null;
    }

    @Override
    public boolean remove(Object key, Object value) {
        byte[] bytes = (byte[]) key;
        return has(bytes) && writable().compareAndSet(bytes, (byte[]) Objects.requireNonNull(value), null);
    }

    @Override
    public boolean replace(byte[] key, byte[] old, byte[] value) {
        return has(key) && writable().compareAndSet(key, Objects.requireNonNull(old), Objects.requireNonNull(value));
    }

    // ---- all of them

    @Override
    public int size() {
        long count = 0;
        try (Cursor cursor = cursor(null, true, null, true, false)) {
            while (cursor.next()) {
                count++;
            }
        }
        return (int) Math.min(count, Integer.MAX_VALUE);
    }

    @Override
    public boolean isEmpty() {
        return end(cursor(null, true, null, true, false)) == null;
    }

    @Override
    public void clear() {
        int flags = Records.flags(low, !lowIncluded, high, highIncluded, false);
        Structure structure = writable();
        structure.kept(Native.removeRange(structure.handle, low, high, flags, Durability.number(null)));
    }

    @Override
    public Set<Map.Entry<byte[], byte[]>> entrySet() {
        return new AbstractSet<>() {
            @Override
            public Iterator<Map.Entry<byte[], byte[]>> iterator() {
                return new Entries();
            }

            @Override
            public int size() {
                return OrderedMap.this.size();
            }

            @Override
            public boolean isEmpty() {
                return OrderedMap.this.isEmpty();
            }

            @Override
            public boolean contains(Object o) {
                if (!(o instanceof Map.Entry)) {
                    return false;
                }
                Map.Entry<?, ?> entry = (Map.Entry<?, ?>) o;
                byte[] there = OrderedMap.this.get(entry.getKey());
                return there != null && Arrays.equals(there, (byte[]) entry.getValue());
            }

            @Override
            public boolean remove(Object o) {
                Map.Entry<?, ?> entry = (Map.Entry<?, ?>) o;
                return OrderedMap.this.remove(entry.getKey(), entry.getValue());
            }

            @Override
            public void clear() {
                OrderedMap.this.clear();
            }
        };
    }

    /** Reads some records ahead, and holds nothing between: nobody closes an iterator that is left early. */
    private final class Entries implements Iterator<Map.Entry<byte[], byte[]>> {
        /** Bytes that are read ahead, at first and at most. */
        private static final int FIRST = 4 << 10;
        private static final int MOST = 1 << 20;

        private final ArrayDeque<Map.Entry<byte[], byte[]>> ahead = new ArrayDeque<>();
        private long most = FIRST;
        private boolean ended;
        /** The last one that was read, and that was given out. */
        private byte[] read;
        private byte[] last;

        @Override
        public boolean hasNext() {
            if (ahead.isEmpty() && !ended) {
                readAhead();
            }
            return !ahead.isEmpty();
        }

        private void readAhead() {
            boolean first = read == null;
            try (Cursor cursor = descending ? cursor(null, true, read, first, true) : cursor(read, first, null, true, false)) {
                for (long bytes = 0; bytes < most && !ended;) {
                    ended = !cursor.next();
                    if (!ended) {
                        Through entry = new Through(cursor.key(), cursor.value());
                        read = entry.getKey();
                        bytes += read.length + entry.getValue().length + Window.HEADER;
                        ahead.add(entry);
                    }
                }
            }
            most = Math.min(most * 4, MOST);
        }

        @Override
        public Map.Entry<byte[], byte[]> next() {
            if (!hasNext()) {
                throw new NoSuchElementException();
            }
            Map.Entry<byte[], byte[]> entry = ahead.remove();
            last = entry.getKey();
            return entry;
        }

        @Override
        public void remove() {
            if (last == null) {
                throw new IllegalStateException("next() comes first");
            }
            writable().delete(last);
        }
    }

    /** An entry whose {@code setValue} writes. */
    private final class Through extends SimpleEntry<byte[], byte[]> {
        private static final long serialVersionUID = 1L;

        Through(byte[] key, byte[] value) {
            super(key, value);
        }

        @Override
        public byte[] setValue(byte[] value) {
            OrderedMap.this.put(getKey(), value);
            return super.setValue(value);
        }
    }

    // ---- by order

    @Override
    public Comparator<? super byte[]> comparator() {
        return descending ? ORDER.reversed() : ORDER;
    }

    @Override
    public Map.Entry<byte[], byte[]> lowerEntry(byte[] key) {
        return near(key, false, descending);
    }

    @Override
    public byte[] lowerKey(byte[] key) {
        return keyOf(lowerEntry(key));
    }

    @Override
    public Map.Entry<byte[], byte[]> floorEntry(byte[] key) {
        return near(key, true, descending);
    }

    @Override
    public byte[] floorKey(byte[] key) {
        return keyOf(floorEntry(key));
    }

    @Override
    public Map.Entry<byte[], byte[]> ceilingEntry(byte[] key) {
        return near(key, true, !descending);
    }

    @Override
    public byte[] ceilingKey(byte[] key) {
        return keyOf(ceilingEntry(key));
    }

    @Override
    public Map.Entry<byte[], byte[]> higherEntry(byte[] key) {
        return near(key, false, !descending);
    }

    @Override
    public byte[] higherKey(byte[] key) {
        return keyOf(higherEntry(key));
    }

    @Override
    public Map.Entry<byte[], byte[]> firstEntry() {
        return end(cursor(null, true, null, true, descending));
    }

    @Override
    public Map.Entry<byte[], byte[]> lastEntry() {
        return end(cursor(null, true, null, true, !descending));
    }

    @Override
    public byte[] firstKey() {
        return keyThere(firstEntry());
    }

    @Override
    public byte[] lastKey() {
        return keyThere(lastEntry());
    }

    @Override
    public Map.Entry<byte[], byte[]> pollFirstEntry() {
        return poll(descending);
    }

    @Override
    public Map.Entry<byte[], byte[]> pollLastEntry() {
        return poll(!descending);
    }

    private Map.Entry<byte[], byte[]> poll(boolean downwards) {
        Structure structure = writable();
        while (true) {
            Map.Entry<byte[], byte[]> entry = end(cursor(null, true, null, true, downwards));
            if (entry == null) {
                return null;
            }
            // Unless another thread was faster.
            byte[] removed = structure.remove(entry.getKey());
            if (removed != null) {
                return new SimpleImmutableEntry<>(entry.getKey(), removed);
            }
        }
    }

    // ---- parts

    @Override
    public NavigableMap<byte[], byte[]> descendingMap() {
        return new OrderedMap(records, low, lowIncluded, high, highIncluded, !descending);
    }

    @Override
    public NavigableMap<byte[], byte[]> subMap(byte[] from, boolean fromIncluded, byte[] to, boolean toIncluded) {
        Objects.requireNonNull(from);
        Objects.requireNonNull(to);
        if (comparator().compare(from, to) > 0) {
            throw new IllegalArgumentException("the part begins behind its end");
        }
        return descending ? part(to, toIncluded, from, fromIncluded) : part(from, fromIncluded, to, toIncluded);
    }

    @Override
    public NavigableMap<byte[], byte[]> headMap(byte[] to, boolean included) {
        Objects.requireNonNull(to);
        return descending ? part(to, included, null, true) : part(null, true, to, included);
    }

    @Override
    public NavigableMap<byte[], byte[]> tailMap(byte[] from, boolean included) {
        Objects.requireNonNull(from);
        return descending ? part(null, true, from, included) : part(from, included, null, true);
    }

    /** As with {@link TreeMap}, ends outside of this part are an error. */
    private OrderedMap part(byte[] from, boolean fromIncluded, byte[] to, boolean toIncluded) {
        check(from, fromIncluded);
        check(to, toIncluded);
        byte[] newLow = from == null ? low : from.clone();
        byte[] newHigh = to == null ? high : to.clone();
        return new OrderedMap(records, newLow, from == null ? lowIncluded : fromIncluded, newHigh,
            to == null ? highIncluded : toIncluded, descending);
    }

    private void check(byte[] end, boolean included) {
        if (end == null) {
            return;
        }
        boolean inside = included ? has(end)
            : (low == null || ORDER.compare(end, low) >= 0) && (high == null || ORDER.compare(end, high) <= 0);
        if (!inside) {
            throw new IllegalArgumentException("the end is outside of this part of the map");
        }
    }

    @Override
    public SortedMap<byte[], byte[]> subMap(byte[] from, byte[] to) {
        return subMap(from, true, to, false);
    }

    @Override
    public SortedMap<byte[], byte[]> headMap(byte[] to) {
        return headMap(to, false);
    }

    @Override
    public SortedMap<byte[], byte[]> tailMap(byte[] from) {
        return tailMap(from, true);
    }

    @Override
    public Set<byte[]> keySet() {
        return navigableKeySet();
    }

    @Override
    public NavigableSet<byte[]> navigableKeySet() {
        return new OrderedKeys(this);
    }

    @Override
    public NavigableSet<byte[]> descendingKeySet() {
        return descendingMap().navigableKeySet();
    }

    // Arrays are not equal by what is in them, so maps of arrays are compared record by record.

    @Override
    public boolean containsValue(Object value) {
        for (Map.Entry<byte[], byte[]> entry : entrySet()) {
            if (Arrays.equals(entry.getValue(), (byte[]) value)) {
                return true;
            }
        }
        return false;
    }

    @Override
    public boolean equals(Object other) {
        if (this == other) {
            return true;
        }
        if (!(other instanceof SortedMap)) {
            return false;
        }
        Iterator<? extends Map.Entry<?, ?>> others = ((SortedMap<?, ?>) other).entrySet().iterator();
        for (Map.Entry<byte[], byte[]> mine : entrySet()) {
            Map.Entry<?, ?> its = others.hasNext() ? others.next() : null;
            if (its == null || !(its.getKey() instanceof byte[]) || !(its.getValue() instanceof byte[])
                || !Arrays.equals(mine.getKey(), (byte[]) its.getKey())
                || !Arrays.equals(mine.getValue(), (byte[]) its.getValue())) {
                return false;
            }
        }
        return !others.hasNext();
    }

    @Override
    public int hashCode() {
        int hash = 0;
        for (Map.Entry<byte[], byte[]> entry : entrySet()) {
            hash += Arrays.hashCode(entry.getKey()) ^ Arrays.hashCode(entry.getValue());
        }
        return hash;
    }

    @Override
    public String toString() {
        return records + (low == null && high == null ? "" : " (a part of it)");
    }

    /** For {@link OrderedKeys}: an iterator without entries. */
    Iterator<byte[]> keys() {
        Iterator<Map.Entry<byte[], byte[]>> entries = entrySet().iterator();
        return new Iterator<>() {
            @Override
            public boolean hasNext() {
                return entries.hasNext();
            }

            @Override
            public byte[] next() {
                return entries.next().getKey();
            }

            @Override
            public void remove() {
                entries.remove();
            }
        };
    }
}
