package org.terrace;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Random;
import java.util.TreeMap;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.lifecycle.AfterContainer;
import net.jqwik.api.lifecycle.BeforeContainer;

/** A tree as a map does what a {@link TreeMap} does, whatever part of it one looks at. */
class MapTest {
    private static Folder folder;
    private static Database db;
    private static int trees;

    @BeforeContainer
    static void begin() {
        folder = new Folder();
        db = folder.open();
    }

    @AfterContainer
    static void end() {
        db.close();
        folder.close();
    }

    private static byte[] key(Random random) {
        byte[] key = new byte[random.nextInt(4)];
        for (int i = 0; i < key.length; i++) {
            key[i] = (byte) (random.nextInt(4) * 85);
        }
        return key;
    }

    private static void same(byte[] expected, byte[] got) {
        assertArrayEquals(expected, got);
    }

    private static void same(Map.Entry<byte[], byte[]> expected, Map.Entry<byte[], byte[]> got) {
        assertEquals(expected == null, got == null);
        if (expected != null) {
            same(expected.getKey(), got.getKey());
            same(expected.getValue(), got.getValue());
        }
    }

    /** What both do: an answer, or that they refuse. */
    private interface Call<T> {
        T on(NavigableMap<byte[], byte[]> map);
    }

    private static <T> List<T> both(NavigableMap<byte[], byte[]> model, NavigableMap<byte[], byte[]> ours, Call<T> call) {
        List<T> answers = new ArrayList<>();
        for (var map : List.of(model, ours)) {
            try {
                answers.add(call.on(map));
            } catch (IllegalArgumentException | java.util.NoSuchElementException e) {
                answers.add(null);
            }
        }
        return answers;
    }

    @Property(tries = 120)
    void aTreeIsATreeMap(@ForAll long seed, @ForAll @IntRange(min = 1, max = 60) int steps) {
        Random random = new Random(seed);
        Tree tree = db.tree("tree" + trees++);
        NavigableMap<byte[], byte[]> model = new TreeMap<>(Arrays::compareUnsigned);
        NavigableMap<byte[], byte[]> ours = tree.asMap();
        for (int i = 0; i < steps; i++) {
            byte[] key = key(random);
            byte[] value = new byte[] {(byte) i};
            switch (random.nextInt(6)) {
                case 0:
                    same(model.remove(key), ours.remove(key));
                    break;
                case 1:
                    same(model.putIfAbsent(key, value), ours.putIfAbsent(key, value));
                    break;
                case 2:
                    same(model.pollFirstEntry(), ours.pollFirstEntry());
                    break;
                default:
                    same(model.put(key, value), ours.put(key, value));
            }
            if (random.nextInt(4) == 0) {
                look(random, model, ours, 3);
            }
        }
        look(random, model, ours, 3);
        db.drop(tree.name());
    }

    private static void look(Random random, NavigableMap<byte[], byte[]> model, NavigableMap<byte[], byte[]> ours, int depth) {
        assertEquals(model.size(), ours.size());
        assertEquals(model.isEmpty(), ours.isEmpty());
        assertTrue(ours.equals(model));
        var mine = ours.entrySet().iterator();
        for (var entry : model.entrySet()) {
            same(entry, mine.next());
        }
        assertTrue(!mine.hasNext());
        assertEquals(model.keySet().size(), ours.navigableKeySet().size());
        byte[] key = key(random);
        byte[] to = key(random);
        boolean in = random.nextBoolean();
        boolean toIn = random.nextBoolean();
        same(model.get(key), ours.get(key));
        assertEquals(model.containsKey(key), ours.containsKey(key));
        same(model.floorEntry(key), ours.floorEntry(key));
        same(model.lowerEntry(key), ours.lowerEntry(key));
        same(model.ceilingEntry(key), ours.ceilingEntry(key));
        same(model.higherEntry(key), ours.higherEntry(key));
        same(model.firstEntry(), ours.firstEntry());
        same(model.lastEntry(), ours.lastEntry());
        if (depth == 0) {
            return;
        }
        List<NavigableMap<byte[], byte[]>> parts;
        switch (random.nextInt(4)) {
            case 0:
                parts = both(model, ours, map -> map.subMap(key, in, to, toIn));
                break;
            case 1:
                parts = both(model, ours, map -> map.headMap(to, toIn));
                break;
            case 2:
                parts = both(model, ours, map -> map.tailMap(key, in));
                break;
            default:
                parts = both(model, ours, NavigableMap::descendingMap);
        }
        assertEquals(parts.get(0) == null, parts.get(1) == null);
        if (parts.get(0) != null) {
            look(random, parts.get(0), parts.get(1), depth - 1);
        }
    }
}
