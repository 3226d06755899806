package org.terrace;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.terrace.Folder.b;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;

/** A process that is killed loses nothing that it was told is written, and half of no batch. */
class CrashTest {
    /** Starts a class in another JVM. */
    static Process start(Class<?> main, String... arguments) throws Exception {
        return startWith("64m", main, arguments);
    }

    private static Process startWith(String heap, Class<?> main, String... arguments) throws Exception {
        List<String> command = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString(),
            "-Xmx" + heap, "-Djava.io.tmpdir=" + System.getProperty("java.io.tmpdir"), "-cp", System.getProperty("java.class.path"), main.getName()));
        command.addAll(List.of(arguments));
        return new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    }

    /** Writes pairs of records, one pair a batch, and says after each that it is written. */
    public static void main(String[] arguments) {
        Database db = Terrace.open(Path.of(arguments[0]), Options.memory("16MiB"));
        Tree left = db.tree("left");
        Hash right = db.hash("right");
        for (int i = 0;; i++) {
            byte[] value = b(i + "x".repeat(i % 500));
            try (WriteBatch batch = db.batch()) {
                batch.put(left, Numbers.encode(i), value).put(right, Numbers.encode(i), value);
                db.write(batch);
            }
            System.out.println(i);
            System.out.flush();
        }
    }

    /** Reads what its heap has no room for. */
    static final class Small {
        public static void main(String[] arguments) {
            try (Database db = Terrace.open(Path.of(arguments[0]), LARGE);
                    Changes changes = db.changes(ChangesOptions.defaults().from(arguments[1]));
                    Cursor cursor = db.tree("tree").all()) {
                for (int i = 0; i < 2; i++) {
                    said(() -> changes.next().changes().size());
                    said(cursor::next);
                }
            }
        }

        private static void said(Supplier<Object> read) {
            try {
                System.out.println(read.get());
            } catch (OutOfMemoryError e) {
                System.out.println("full");
            } catch (TerraceException e) {
                System.out.println(e.kind());
            }
        }
    }

    private static final Options LARGE = Options.memory("256MiB").keepChanges(128 << 20);

    @Test
    void whatTheHeapHasNoRoomForEndsWhoReads() throws Exception {
        for (int megabytes : new int[] {20, 40}) {
            try (Folder folder = new Folder()) {
                String place;
                try (Database db = Terrace.open(folder.db(), LARGE); Changes changes = db.changes()) {
                    Tree tree = db.tree("tree");
                    place = changes.next().place();
                    tree.put(b("a"), new byte[megabytes << 20]);
                    tree.put(b("b"), b("1"));
                }
                // Behind a gap nobody goes on: neither where the array was not made, nor where it was not taken apart.
                Process child = startWith("32m", Small.class, folder.db().toString(), place);
                String said = new String(child.getInputStream().readAllBytes(), StandardCharsets.US_ASCII);
                assertEquals(0, child.waitFor());
                assertEquals(megabytes == 20 ? "full,true,CLOSED,true," : "full,full,CLOSED,CLOSED,",
                    said.replaceAll("\\s+", ","));
            }
        }
    }

    @Test
    void whatWasAcknowledgedIsThereAfterAKill() throws Exception {
        try (Folder folder = new Folder()) {
            Process child = start(CrashTest.class, folder.db().toString());
            int last = -1;
            try (BufferedReader said = new BufferedReader(new InputStreamReader(child.getInputStream(), StandardCharsets.US_ASCII))) {
                while (last < 3000) {
                    String line = said.readLine();
                    assertNotNull(line, "the child has ended by itself");
                    last = Integer.parseInt(line);
                }
                // SIGKILL.
                child.destroyForcibly();
                for (String line; (line = said.readLine()) != null;) {
                    last = line.matches("\\d+") ? Math.max(last, Integer.parseInt(line)) : last;
                }
            } catch (java.io.IOException closed) {
                // The pipe broke; what was read is enough.
            }
            child.waitFor();
            try (Database db = folder.open()) {
                Tree left = db.tree("left");
                Hash right = db.hash("right");
                for (int i = 0; i <= last; i++) {
                    assertEquals(i + "x".repeat(i % 500), Folder.s(left.get(Numbers.encode(i))));
                }
                long pairs = 0;
                try (Cursor cursor = left.all()) {
                    while (cursor.next()) {
                        assertTrue(right.containsKey(cursor.key()));
                        pairs++;
                    }
                }
                assertEquals(pairs, right.stream().count());
            }
        }
    }
}
