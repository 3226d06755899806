package org.terrace.micrometer;

import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tag;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.binder.MeterBinder;
import java.util.HashMap;
import java.util.Map;
import org.terrace.Database;
import org.terrace.TerraceException;

/**
 * The figures of a database as meters, those that it has as Prometheus text: counters and gauges with the same names and
 * labels. They are read once for all meters that are looked at within a second. Any number of threads may use it.
 */
public final class TerraceMetrics implements MeterBinder {
    private static final long FRESH_NANOS = 1_000_000_000;

    private final Database database;
    private final Tags tags;
    private Map<String, Double> values = Map.of();
    private long readAt;
    private boolean read;

    /**
     * Meters of a database.
     *
     * @param database which; its meters are NaN when it is closed
     * @param tags what is put to each of them
     */
    public TerraceMetrics(Database database, Iterable<Tag> tags) {
        this.database = database;
        this.tags = Tags.of(tags);
    }

    /**
     * Meters of a database, with its folder as the tag {@code database}.
     *
     * @param database which
     */
    public TerraceMetrics(Database database) {
        this(database, Tags.of("database", String.valueOf(database.path())));
    }

    @Override
    public void bindTo(MeterRegistry registry) {
        Map<String, String> kinds = new HashMap<>();
        for (String line : database.metrics().split("\n")) {
            if (line.startsWith("# TYPE ")) {
                String[] words = line.split(" ");
                kinds.put(words[2], words[3]);
                continue;
            }
            int end = line.lastIndexOf(' ');
            if (line.startsWith("#") || end < 0) {
                continue;
            }
            String sample = line.substring(0, end);
            int brace = sample.indexOf('{');
            String name = brace < 0 ? sample : sample.substring(0, brace);
            String kind = kinds.get(name);
            Tags all = tags.and(labels(brace < 0 ? "" : sample.substring(brace + 1, sample.length() - 1)));
            String dotted = name.replace('_', '.');
            if ("counter".equals(kind)) {
                String plain = dotted.endsWith(".total") ? dotted.substring(0, dotted.length() - 6) : dotted;
                FunctionCounter.builder(plain, this, metrics -> metrics.value(sample)).tags(all).register(registry);
            } else if ("gauge".equals(kind)) {
                Gauge.builder(dotted, this, metrics -> metrics.value(sample)).tags(all).register(registry);
            }
        }
    }

    /** Labels as Prometheus writes them: {@code a="b",c="d"}. */
    private static Tags labels(String text) {
        Tags tags = Tags.empty();
        int at = 0;
        while (at < text.length()) {
            int equals = text.indexOf("=\"", at);
            if (equals < 0) {
                return tags;
            }
            StringBuilder value = new StringBuilder();
            int i = equals + 2;
            for (; i < text.length() && text.charAt(i) != '"'; i++) {
                if (text.charAt(i) == '\\' && i + 1 < text.length()) {
                    i++;
                    value.append(text.charAt(i) == 'n' ? '\n' : text.charAt(i));
                } else {
                    value.append(text.charAt(i));
                }
            }
            tags = tags.and(text.substring(at, equals), value.toString());
            at = i + 2;
        }
        return tags;
    }

    private synchronized double value(String sample) {
        long now = System.nanoTime();
        if (!read || now - readAt > FRESH_NANOS) {
            Map<String, Double> fresh = new HashMap<>();
            try {
                for (String line : database.metrics().split("\n")) {
                    int end = line.lastIndexOf(' ');
                    if (!line.startsWith("#") && end > 0) {
                        fresh.put(line.substring(0, end), number(line.substring(end + 1)));
                    }
                }
            } catch (TerraceException closed) {
                fresh.clear();
            }
            values = fresh;
            readAt = now;
            read = true;
        }
        return values.getOrDefault(sample, Double.NaN);
    }

    private static double number(String text) {
        switch (text) {
            case "+Inf":
                return Double.POSITIVE_INFINITY;
            case "-Inf":
                return Double.NEGATIVE_INFINITY;
            default:
                return Double.parseDouble(text);
        }
    }
}
