package org.terrace.kafka;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.terrace.Options;
import org.terrace.Terrace;

/** A process is killed while it writes and commits: the store is at its committed offset, exactly, or begins anew. */
class KillTest {
    private static final TopicPartition CHANGELOG = new TopicPartition("test-s-changelog", 1);
    private static final int KEYS = 300;
    private static final String ENDS = "ends as it should";
    /** A mode: closes an engine with a structure whose folder cannot be looked for. */
    private static final String UNSWEPT = "unswept";

    /** Record {@code n} of the changelog. */
    private static KeyValue<byte[], byte[]> record(long n) {
        Random random = new Random(n);
        byte[] key = ("key" + random.nextInt(KEYS)).getBytes(StandardCharsets.UTF_8);
        return KeyValue.pair(key, random.nextInt(5) == 0 ? null : (n + "x".repeat(random.nextInt(200))).getBytes(StandardCharsets.UTF_8));
    }

    private static KeyValueRecords open(Path application, String mode) {
        TestContext context = new TestContext(application).with(Settings.STAGED,
            mode.endsWith("without commits") ? "20k" : "1MiB");
        if (mode.startsWith("exactly once")) {
            context.with("processing.guarantee", "exactly_once_v2");
        }
        KeyValueRecords store = new KeyValueRecords("s");
        store.init(context, store);
        return store;
    }

    /** Writes the changelog's records as they come, and commits each hundred. */
    public static void main(String[] arguments) {
        KeyValueRecords store = open(Path.of(arguments[0]), arguments[1]);
        Long from = store.committedOffset(CHANGELOG);
        boolean commits = !arguments[1].endsWith("without commits");
        if (arguments[1].equals(UNSWEPT)) {
            store.engine.db.tree("0_9/\u00fc");
            store.close();
            Engine.closeIdle();
            Terrace.open(Path.of(arguments[0]).resolve("terrace"), Options.memory("16MiB")).close();
            return;
        }
        if (arguments[1].equals(ENDS)) {
            for (long n = 0; n < 1000; n++) {
                store.put(Bytes.wrap(record(n).key), new byte[10]);
            }
            store.commit(Map.of(CHANGELOG, 999L));
            store.close();
            return;
        }
        for (long n = from == null ? 0 : from + 1;; n++) {
            KeyValue<byte[], byte[]> record = record(n);
            store.put(Bytes.wrap(record.key), record.value);
            if (n % 100 == 99 && (commits || n < 1000)) {
                store.commit(Map.of(CHANGELOG, n));
            }
            System.out.println(n);
            System.out.flush();
        }
    }

    private static Process start(Path application, String mode) throws Exception {
        ProcessBuilder child = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-Xmx64m",
            "-cp", System.getProperty("java.class.path"), KillTest.class.getName(), application.toString(), mode)
            .redirectError(ProcessBuilder.Redirect.DISCARD);
        if (mode.equals(UNSWEPT)) {
            // No folder is named with what is not in ASCII then, so looking for it throws.
            child.environment().put("LC_ALL", "C");
        }
        return child.start();
    }

    @Test
    void anEngineIsClosedThoughItsStoresCannotBeSwept() throws Exception {
        Path application = Files.createTempDirectory("terrace-kill");
        try {
            assertEquals(0, start(application, UNSWEPT).waitFor());
        } finally {
            CommitTest.delete(application);
        }
    }

    @Test
    void whoEndsAsItShouldHasNothingToReplay() throws Exception {
        Path application = Files.createTempDirectory("terrace-kill");
        try {
            assertEquals(0, start(application, ENDS).waitFor());
            KeyValueRecords store = open(application, ENDS);
            try {
                assertEquals(999L, store.committedOffset(CHANGELOG));
                assertTrue(store.engine.db.metrics().contains("\nterrace_opening_replayed_records 0\n"));
            } finally {
                store.close();
            }
        } finally {
            Engine.closeIdle();
            CommitTest.delete(application);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"at least once", "exactly once", "exactly once without commits"})
    void theStoreIsAtItsOffset(String mode) throws Exception {
        Path application = Files.createTempDirectory("terrace-kill");
        try {
            long read = 0;
            for (int round = 0; round < 3; round++) {
                Process child = start(application, mode);
                long last = -1;
                try (BufferedReader said = new BufferedReader(new InputStreamReader(child.getInputStream(), StandardCharsets.US_ASCII))) {
                    for (int lines = 0; lines < 2000 + 37 * round; lines++) {
                        String line = said.readLine();
                        assertNotNull(line, "the child has ended by itself");
                        last = Long.parseLong(line);
                    }
                    child.destroyForcibly();
                    child.waitFor();
                } catch (java.io.IOException closed) {
                    child.waitFor();
                }
                KeyValueRecords store = open(application, mode);
                try {
                    Long offset = store.committedOffset(CHANGELOG);
                    if (mode.endsWith("without commits")) {
                        // What was written beyond the last commit is not to be believed, and the store knows.
                        assertNull(offset);
                        assertEquals(List.of(), CommitTest.all(store.all()));
                        continue;
                    }
                    assertNotNull(offset);
                    assertTrue(offset >= last - 200, offset + " of " + last);
                    Map<String, byte[]> expected = new HashMap<>();
                    for (long n = 0; n <= offset; n++) {
                        KeyValue<byte[], byte[]> record = record(n);
                        expected.put(new String(record.key, StandardCharsets.UTF_8), record.value);
                    }
                    for (int key = 0; key < KEYS && mode.equals("exactly once"); key++) {
                        assertArrayEquals(expected.get("key" + key), store.get(CommitTest.k("key" + key)), "key" + key);
                    }
                    read += offset;
                } finally {
                    store.close();
                    Engine.closeIdle();
                }
            }
            assertTrue(mode.endsWith("without commits") || read > 0);
        } finally {
            Engine.closeIdle();
            CommitTest.delete(application);
        }
    }
}
