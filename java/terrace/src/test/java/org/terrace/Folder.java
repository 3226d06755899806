package org.terrace;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.stream.Stream;

/** A folder of a test, and what tests say often. */
final class Folder implements AutoCloseable {
    final Path path;

    Folder() {
        try {
            path = Files.createTempDirectory("terrace-test");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    Path db() {
        return path.resolve("db");
    }

    Database open() {
        return Terrace.open(db(), Options.memory("16MiB"));
    }

    static byte[] b(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String s(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }

    static void delete(Path path) {
        try (Stream<Path> all = Files.walk(path)) {
            all.sorted(Comparator.reverseOrder()).forEach(one -> one.toFile().delete());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public void close() {
        delete(path);
    }
}
