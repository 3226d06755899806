package org.terrace.micrometer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.Meter;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.terrace.Database;
import org.terrace.Options;
import org.terrace.Terrace;

class TerraceMetricsTest {
    @Test
    void figuresAreMeters(@TempDir Path folder) throws Exception {
        SimpleMeterRegistry registry = new SimpleMeterRegistry();
        Database db = Terrace.open(Files.createDirectory(folder.resolve("x")).resolve("db"), Options.memory("16MiB"));
        db.tree("users").put(new byte[] {1}, new byte[100]);
        new TerraceMetrics(db).bindTo(registry);
        int gauges = 0;
        int counters = 0;
        double all = 0;
        for (Meter meter : registry.getMeters()) {
            assertTrue(meter.getId().getName().startsWith("terrace."), meter.getId().toString());
            assertEquals(db.path().toString(), meter.getId().getTag("database"));
            if (meter instanceof FunctionCounter) {
                counters++;
                all += ((FunctionCounter) meter).count();
            } else {
                gauges++;
            }
        }
        assertTrue(gauges > 10 && counters > 10, gauges + " gauges, " + counters + " counters");
        assertTrue(all > 0);
        assertTrue(registry.getMeters().stream().anyMatch(meter -> "users".equals(meter.getId().getTag("structure"))),
            () -> registry.getMetersAsString());
        db.close();
    }
}
