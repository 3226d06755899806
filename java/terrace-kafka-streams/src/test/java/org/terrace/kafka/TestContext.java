package org.terrace.kafka;

import java.io.File;
import java.nio.file.Path;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsMetrics;
import org.apache.kafka.streams.processor.BatchingStateRestoreCallback;
import org.apache.kafka.streams.processor.CommitCallback;
import org.apache.kafka.streams.processor.StateRestoreCallback;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.api.RecordMetadata;

/** What Streams tells a store, as far as stores of Terrace ask. */
final class TestContext implements StateStoreContext {
    private final Path taskFolder;
    final Map<String, Object> configs = new HashMap<>();
    private BatchingStateRestoreCallback restore;
    private long offset = -1;

    /** None if it is null. */
    StreamsMetrics metrics;

    TestContext(Path application) {
        this(application, "0_1");
    }

    TestContext(Path application, String task) {
        taskFolder = application.resolve(task);
        taskFolder.toFile().mkdirs();
        configs.put(Settings.MEMORY, "16MiB");
        configs.put(Settings.LINGER, "60000");
    }

    TestContext with(String name, Object value) {
        configs.put(name, value);
        return this;
    }

    void at(long offset) {
        this.offset = offset;
    }

    void restore(Collection<KeyValue<byte[], byte[]>> records) {
        restore.restoreAll(records);
    }

    @Override
    public String applicationId() {
        return "test";
    }

    @Override
    public TaskId taskId() {
        String task = taskFolder.getFileName().toString();
        return task.matches("\\d+_\\d+") ? TaskId.parse(task) : new TaskId(0, 1);
    }

    @Override
    public Optional<RecordMetadata> recordMetadata() {
        return offset < 0 ? Optional.empty() : Optional.of(new RecordMetadata() {
            @Override
            public String topic() {
                return "input";
            }

            @Override
            public int partition() {
                return 1;
            }

            @Override
            public long offset() {
                return offset;
            }
        });
    }

    @Override
    public Serde<?> keySerde() {
        return null;
    }

    @Override
    public Serde<?> valueSerde() {
        return null;
    }

    @Override
    public File stateDir() {
        return taskFolder.toFile();
    }

    @Override
    public StreamsMetrics metrics() {
        return metrics;
    }

    @Override
    public void register(StateStore store, StateRestoreCallback callback) {
        restore = (BatchingStateRestoreCallback) callback;
    }

    @Override
    public void register(StateStore store, StateRestoreCallback callback, CommitCallback commit) {
        register(store, callback);
    }

    @Override
    public Map<String, Object> appConfigs() {
        return configs;
    }

    @Override
    public Map<String, Object> appConfigsWithPrefix(String prefix) {
        return Map.of();
    }
}
