package org.terrace.kafka;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/**
 * A file in the folder of a store that names what the engine has of it. Streams deletes it with the folder of the task: that
 * is how a wipe reaches the engine. It is written behind the first batch of the store, never before: under exactly-once a task
 * folder that is not empty and a store without an offset are a wipe.
 */
final class Ref {
    static final String FILE = "ref";

    private Ref() {}

    static String text(long token, long token2) {
        return String.format("%016x%016x%n", token, token2);
    }

    /** What is in it, or null. */
    static String read(Path folder) throws IOException {
        try {
            return new String(Files.readAllBytes(folder.resolve(FILE)), StandardCharsets.US_ASCII);
        } catch (NoSuchFileException e) {
            return null;
        }
    }

    static void write(Path folder, String text) throws IOException {
        Files.createDirectories(folder);
        try (FileChannel file = FileChannel.open(folder.resolve(FILE), StandardOpenOption.CREATE, StandardOpenOption.WRITE,
                StandardOpenOption.TRUNCATE_EXISTING)) {
            file.write(ByteBuffer.wrap(text.getBytes(StandardCharsets.US_ASCII)));
            file.force(true);
        }
        sync(folder);
        sync(folder.getParent());
    }

    private static void sync(Path folder) throws IOException {
        try (FileChannel open = FileChannel.open(folder, StandardOpenOption.READ)) {
            open.force(true);
        }
    }
}
