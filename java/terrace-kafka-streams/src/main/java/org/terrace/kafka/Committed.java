package org.terrace.kafka;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.query.Position;

/**
 * The record that the engine keeps of a store, in the same batch as its data: who it is, the offsets that the data is at, the
 * position for queries. Immutable.
 */
final class Committed {
    /** Streams' own word for an offset that is not known: restore from the beginning. */
    static final long UNKNOWN = -4;

    private static final int VERSION = 2;
    private static final int TOOK = 1;
    private static final int DIRTY = 2;

    /** Random; the store's folder has the same one. */
    final long token;
    final long token2;
    /** How keys and values lie: see {@link Store#layout()}. */
    final String layout;
    /** Whether the store has taken a record since it was made. */
    final boolean took;
    /** Whether there is data of after the offsets that may not have been committed by Streams. */
    final boolean dirty;
    /** The greatest time that a store of windows has seen, or -1. */
    final long streamTime;
    final Map<TopicPartition, Long> offsets;
    final Map<String, Map<Integer, Long>> position;

    Committed(long token, long token2, String layout, boolean took, boolean dirty, long streamTime,
            Map<TopicPartition, Long> offsets, Map<String, Map<Integer, Long>> position) {
        this.token = token;
        this.token2 = token2;
        this.layout = layout;
        this.took = took;
        this.dirty = dirty;
        this.streamTime = streamTime;
        this.offsets = offsets;
        this.position = position;
    }

    static Map<String, Map<Integer, Long>> of(Position position) {
        Map<String, Map<Integer, Long>> all = new HashMap<>();
        for (String topic : position.getTopics()) {
            all.put(topic, position.getPartitionPositions(topic));
        }
        return all;
    }

    byte[] encode() {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream(96);
        try (DataOutputStream out = new DataOutputStream(bytes)) {
            out.writeByte(VERSION);
            out.writeLong(token);
            out.writeLong(token2);
            out.writeUTF(layout);
            out.writeByte((took ? TOOK : 0) | (dirty ? DIRTY : 0));
            out.writeLong(streamTime);
            out.writeInt(offsets.size());
            for (Map.Entry<TopicPartition, Long> offset : offsets.entrySet()) {
                out.writeUTF(offset.getKey().topic());
                out.writeInt(offset.getKey().partition());
                out.writeLong(offset.getValue());
            }
            out.writeInt(position.size());
            for (Map.Entry<String, Map<Integer, Long>> topic : position.entrySet()) {
                out.writeUTF(topic.getKey());
                out.writeInt(topic.getValue().size());
                for (Map.Entry<Integer, Long> partition : topic.getValue().entrySet()) {
                    out.writeInt(partition.getKey());
                    out.writeLong(partition.getValue());
                }
            }
        } catch (IOException e) {
            throw new UncheckedIOException("writing to memory", e);
        }
        return bytes.toByteArray();
    }

    /** None for bytes of another version: then the store is made anew. */
    static Committed decode(byte[] bytes) {
        try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes))) {
            if (in.readByte() != VERSION) {
                return null;
            }
            long token = in.readLong();
            long token2 = in.readLong();
            String layout = in.readUTF();
            int flags = in.readByte();
            long streamTime = in.readLong();
            Map<TopicPartition, Long> offsets = new HashMap<>();
            for (int left = in.readInt(); left > 0; left--) {
                TopicPartition partition = new TopicPartition(in.readUTF(), in.readInt());
                offsets.put(partition, in.readLong());
            }
            Map<String, Map<Integer, Long>> position = new HashMap<>();
            for (int left = in.readInt(); left > 0; left--) {
                Map<Integer, Long> partitions = position.computeIfAbsent(in.readUTF(), topic -> new HashMap<>());
                for (int more = in.readInt(); more > 0; more--) {
                    partitions.put(in.readInt(), in.readLong());
                }
            }
            return new Committed(token, token2, layout, (flags & TOOK) != 0, (flags & DIRTY) != 0, streamTime, offsets, position);
        } catch (IOException e) {
            return null;
        }
    }
}
