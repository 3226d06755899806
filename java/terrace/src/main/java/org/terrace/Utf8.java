package org.terrace;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Text as it crosses the border. */
final class Utf8 {
    private Utf8() {}

    static byte[] of(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static byte[] of(Path path) {
        return of(path.toString());
    }

    static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }

    static List<String> lines(byte[] bytes) {
        return bytes.length == 0 ? List.of() : new ArrayList<>(Arrays.asList(text(bytes).split("\n")));
    }
}
