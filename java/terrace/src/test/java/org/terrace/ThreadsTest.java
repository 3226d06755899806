package org.terrace;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.terrace.Folder.b;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;

/** Many threads at once. */
class ThreadsTest {
    private static void eight(ExecutorService threads) throws Exception {
        try (Folder folder = new Folder(); Database db = folder.open()) {
            Tree tree = db.tree("t");
            Hash counts = db.hash("c");
            tree.put(b("a"), Numbers.encode(1000));
            tree.put(b("b"), Numbers.encode(0));
            List<Future<?>> all = new ArrayList<>();
            for (int n = 0; n < 8; n++) {
                int mine = n;
                all.add(threads.submit((Callable<Void>) () -> {
                    for (int i = 0; i < 300; i++) {
                        counts.merge(b("n"), Merge.add(1));
                        counts.update(b("u"), old -> Numbers.encode(old == null ? 1 : Numbers.decode(old) + 1));
                        byte[] key = Numbers.encode(mine * 1000L + i);
                        tree.put(key, key);
                        assertEquals(8, tree.get(key).length);
                        if (i % 10 == 0) {
                            db.transaction(t -> {
                                long a = Numbers.decode(t.get(tree, b("a")));
                                t.put(tree, b("a"), Numbers.encode(a - 1));
                                t.put(tree, b("b"), Numbers.encode(1000 - a + 1));
                                return null;
                            });
                            long sum = db.<Long, RuntimeException>read(
                                t -> Numbers.decode(t.get(tree, b("a"))) + Numbers.decode(t.get(tree, b("b"))));
                            assertEquals(1000, sum);
                            try (WriteBatch batch = db.batch(); Cursor cursor = tree.range(key, null)) {
                                batch.delete(tree, key).put(tree, key, key);
                                db.write(batch);
                                assertTrue(cursor.next());
                            }
                        }
                    }
                    return null;
                }));
            }
            for (Future<?> one : all) {
                one.get();
            }
            assertEquals(2400, Numbers.decode(counts.get(b("n"))));
            assertEquals(2400, Numbers.decode(counts.get(b("u"))));
            assertEquals(1000 - 8 * 30, Numbers.decode(tree.get(b("a"))));
            assertEquals(2402, tree.asMap().size());
            assertEquals(List.of(), db.verify());
        } finally {
            threads.shutdown();
        }
    }

    @Test
    void eightThreads() throws Exception {
        eight(Executors.newFixedThreadPool(8));
    }

    @Test
    void virtualThreads() throws Exception {
        Method made;
        try {
            made = Executors.class.getMethod("newVirtualThreadPerTaskExecutor");
        } catch (NoSuchMethodException e) {
            Assumptions.abort("this JVM has no virtual threads");
            return;
        }
        eight((ExecutorService) made.invoke(null));
    }

    @Test
    void threadsMayShareACursor() throws Exception {
        try (Folder folder = new Folder(); Database db = folder.open()) {
            Tree tree = db.tree("t");
            for (int i = 0; i < 5000; i++) {
                tree.put(Numbers.encode(i), new byte[50]);
            }
            // Wrong, and no crash: each record comes at most once to somebody.
            ExecutorService threads = Executors.newFixedThreadPool(4);
            try (Cursor cursor = tree.all()) {
                List<Future<?>> all = new ArrayList<>();
                for (int n = 0; n < 4; n++) {
                    all.add(threads.submit(() -> {
                        byte[] key = new byte[8];
                        try {
                            while (cursor.next()) {
                                cursor.key(key);
                            }
                        } catch (RuntimeException expected) {
                            // Torn between threads.
                        }
                    }));
                }
                for (Future<?> one : all) {
                    one.get();
                }
            } finally {
                threads.shutdown();
            }
            assertEquals(5000, tree.asMap().size());
        }
    }
}
