package org.terrace.kafka;

import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.streams.StreamsMetrics;
import org.apache.kafka.streams.processor.StateStoreContext;

/** Sensors of a store among those of Streams: how long commits take, and how much they write. */
final class StoreMetrics {
    private static final String SCOPE = "terrace-state";

    private final StreamsMetrics metrics;
    private final Sensor latency;
    private final Sensor bytes;
    private final Sensor late;

    StoreMetrics(StateStoreContext context, Store store) {
        metrics = context.metrics();
        if (metrics == null) {
            latency = null;
            bytes = null;
            late = null;
            return;
        }
        String task = String.valueOf(context.taskId());
        // Streams shares sensors of a name among the tasks of a thread.
        String of = task + "." + store.name();
        latency = metrics.addLatencyRateTotalSensor(SCOPE, of, "commit", Sensor.RecordingLevel.INFO, "task-id", task);
        bytes = metrics.addRateTotalSensor(SCOPE, of, "committed-bytes", Sensor.RecordingLevel.INFO, "task-id", task);
        late = metrics.addRateTotalSensor(SCOPE, of, "expired-records", Sensor.RecordingLevel.INFO, "task-id", task);
    }

    void dropped() {
        if (late != null) {
            late.record(1, System.currentTimeMillis());
        }
    }

    void committed(long written, long nanos) {
        if (latency != null) {
            long now = System.currentTimeMillis();
            latency.record(nanos, now);
            bytes.record(written, now);
        }
    }

    void close() {
        if (latency != null) {
            metrics.removeSensor(latency);
            metrics.removeSensor(bytes);
            metrics.removeSensor(late);
        }
    }
}
