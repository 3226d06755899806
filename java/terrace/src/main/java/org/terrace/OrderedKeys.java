package org.terrace;

import java.util.AbstractSet;
import java.util.Comparator;
import java.util.Iterator;
import java.util.NavigableSet;
import java.util.SortedSet;

/** The keys of a map, as a view of it. */
final class OrderedKeys extends AbstractSet<byte[]> implements NavigableSet<byte[]> {
    private final OrderedMap map;

    OrderedKeys(OrderedMap map) {
        this.map = map;
    }

    @Override
    public int size() {
        return map.size();
    }

    @Override
    public boolean isEmpty() {
        return map.isEmpty();
    }

    @Override
    public boolean contains(Object key) {
        return map.containsKey(key);
    }

    @Override
    public boolean remove(Object key) {
        return map.remove(key) != null;
    }

    @Override
    public void clear() {
        map.clear();
    }

    @Override
    public Iterator<byte[]> iterator() {
        return map.keys();
    }

    @Override
    public Iterator<byte[]> descendingIterator() {
        return descendingSet().iterator();
    }

    @Override
    public NavigableSet<byte[]> descendingSet() {
        return map.descendingMap().navigableKeySet();
    }

    @Override
    public Comparator<? super byte[]> comparator() {
        return map.comparator();
    }

    @Override
    public byte[] first() {
        return map.firstKey();
    }

    @Override
    public byte[] last() {
        return map.lastKey();
    }

    @Override
    public byte[] lower(byte[] key) {
        return map.lowerKey(key);
    }

    @Override
    public byte[] floor(byte[] key) {
        return map.floorKey(key);
    }

    @Override
    public byte[] ceiling(byte[] key) {
        return map.ceilingKey(key);
    }

    @Override
    public byte[] higher(byte[] key) {
        return map.higherKey(key);
    }

    @Override
    public byte[] pollFirst() {
        var entry = map.pollFirstEntry();
        return entry == null ? null : entry.getKey();
    }

    @Override
    public byte[] pollLast() {
        var entry = map.pollLastEntry();
        return entry == null ? null : entry.getKey();
    }

    @Override
    public NavigableSet<byte[]> subSet(byte[] from, boolean fromIncluded, byte[] to, boolean toIncluded) {
        return map.subMap(from, fromIncluded, to, toIncluded).navigableKeySet();
    }

    @Override
    public NavigableSet<byte[]> headSet(byte[] to, boolean included) {
        return map.headMap(to, included).navigableKeySet();
    }

    @Override
    public NavigableSet<byte[]> tailSet(byte[] from, boolean included) {
        return map.tailMap(from, included).navigableKeySet();
    }

    @Override
    public SortedSet<byte[]> subSet(byte[] from, byte[] to) {
        return subSet(from, true, to, false);
    }

    @Override
    public SortedSet<byte[]> headSet(byte[] to) {
        return headSet(to, false);
    }

    @Override
    public SortedSet<byte[]> tailSet(byte[] from) {
        return tailSet(from, true);
    }
}
