package org.terrace.kafka;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.processor.BatchingStateRestoreCallback;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.processor.api.RecordMetadata;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.Query;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.state.HeadersBytesStore;
import org.apache.kafka.streams.state.TimestampedBytesStore;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.terrace.Durability;
import org.terrace.TerraceException;
import org.terrace.WriteBatch;

/**
 * What all stores have in common: they gather changes, and a commit writes them with the offsets and the position in one
 * batch. So after any end the store is exactly at its last commit. One thread owns the store and writes; any number reads.
 */
abstract class Store implements StateStore {
    private static final Logger LOG = LoggerFactory.getLogger(Store.class);
    private static final SecureRandom RANDOM = new SecureRandom();
    /** Of pages of 16 KiB. */
    private static final int LONGEST_KEY = 4096;
    /** Bytes of a batch while a store is restored. */
    private static final int RESTORED_AT_ONCE = 1 << 20;

    private final String name;
    private final Set<AutoCloseable> iterators = ConcurrentHashMap.newKeySet();
    StateStoreContext context;
    Engine engine;
    private volatile boolean open;
    private String key;
    private Path refFolder;
    private boolean refWritten;
    private volatile Committed committed;
    private boolean took;
    /** Whether it has taken a record since it was opened. */
    private boolean tookNow;
    private boolean dirty;
    private volatile Position position = Position.emptyPosition();
    private boolean moved;
    private long staged;
    private long stagedMost;
    private boolean exactlyOnce;
    private boolean transactional;
    private WriteBatch batch;
    private StoreMetrics metrics;

    Store(String name) {
        this.name = name;
    }

    // ---- what kinds of stores differ in

    /**
     * How the keys of its parts are made, and what times a part has: what was written so can only be read so. {@link #find}
     * adds the format of the values.
     */
    abstract String layout();

    /** Opens what the engine has of this store; all structures are named {@code prefix} or {@code prefix@...}. */
    abstract void openParts(String prefix);

    /** All parts, those without waiting records included. */
    abstract Collection<Part> parts();

    /** A record of the changelog: what has not expired is {@link #restored}. */
    abstract void restore(byte[] key, byte[] value);

    /** The greatest time that was seen, or -1. */
    long streamTime() {
        return -1;
    }

    void resume(long streamTime) {}

    /** What has expired is dropped now: the commit that says so is written. */
    void expire() {}

    abstract void discardParts();

    // ---- life

    @Override
    public final String name() {
        return name;
    }

    @Override
    public final boolean persistent() {
        return true;
    }

    @Override
    @SuppressWarnings("deprecation")
    public final boolean managesOffsets() {
        return true;
    }

    @Override
    public final boolean isOpen() {
        return open;
    }

    @Override
    public final void init(StateStoreContext context, StateStore root) {
        this.context = context;
        if (!open) {
            begin(context);
        }
        if (root != null) {
            context.register(root, (BatchingStateRestoreCallback) this::restoreAll);
        }
    }

    private void begin(StateStoreContext context) {
        Path stateDir = context.stateDir().toPath().toAbsolutePath().normalize();
        String task = String.valueOf(stateDir.getFileName());
        key = task + "/" + name;
        refFolder = Engine.folderOf(stateDir, name);
        Settings settings = new Settings(context.appConfigs());
        stagedMost = settings.staged();
        exactlyOnce = settings.exactlyOnce();
        transactional = settings.transactional();
        engine = Engine.acquire(context, key);
        try {
            warnOfOthers(stateDir, settings);
            find();
            openParts(key);
            batch = engine.db.batch();
            metrics = new StoreMetrics(context, this);
            open = true;
        } catch (TerraceException e) {
            engine.release(key);
            throw failed("opening", e);
        } catch (IOException e) {
            engine.release(key);
            throw new ProcessorStateException("reading " + refFolder + " of the store " + name, e);
        } catch (RuntimeException e) {
            engine.release(key);
            throw e;
        }
    }

    private void warnOfOthers(Path stateDir, Settings settings) {
        for (Path rocks : new Path[] {stateDir.resolve("rocksdb").resolve(name), stateDir.resolve(name)}) {
            if (Files.isDirectory(rocks)) {
                LOG.warn("{} has files of another store named {}, which Terrace does not read: the store is restored from its"
                    + " changelog, and that folder can be deleted", rocks, name);
            }
        }
        if (context.appConfigs().get("rocksdb.config.setter") != null) {
            LOG.warn("rocksdb.config.setter says nothing to the store {}, which is one of Terrace: see {}", name, Settings.MEMORY);
        }
    }

    /** What the engine has of this store, if the store's folder has not been wiped; otherwise it begins anew. */
    private void find() throws IOException {
        String ref = Ref.read(refFolder);
        byte[] bytes = engine.stores.get(key.getBytes(StandardCharsets.UTF_8));
        Committed found = bytes == null ? null : Committed.decode(bytes);
        boolean same = found != null && Ref.text(found.token, found.token2).equals(ref);
        String layout = layout() + (this instanceof HeadersBytesStore ? ", values with headers and timestamps"
            : this instanceof TimestampedBytesStore ? ", values with timestamps" : ", plain values");
        if (same && !found.layout.equals(layout)) {
            LOG.warn("the store {} of {} was written as {}, and is opened as {}: it is made anew and restored from its changelog,"
                + " if it has one", name, context.stateDir(), found.layout, layout);
            same = false;
        }
        if (same && found.dirty && exactlyOnce) {
            LOG.warn("the store {} of {} has data of transactions that may not have been committed, as the process has ended in"
                + " between: it is made anew and restored from its changelog", name, context.stateDir());
            same = false;
        }
        if (same) {
            committed = found;
        } else {
            for (String structure : engine.db.structures().keySet()) {
                if (structure.equals(key) || structure.startsWith(key + "@")) {
                    engine.db.drop(structure);
                }
            }
            if (bytes != null) {
                engine.stores.delete(key.getBytes(StandardCharsets.UTF_8));
            }
            committed = new Committed(RANDOM.nextLong(), RANDOM.nextLong(), layout, false, false, -1, Map.of(), Map.of());
        }
        refWritten = same;
        took = committed.took;
        tookNow = false;
        dirty = committed.dirty;
        // Not what this object had seen when it was closed: that may have been given up since.
        position = Position.fromMap(committed.position);
        moved = false;
        resume(committed.streamTime);
    }

    @Override
    public final void close() {
        if (!open) {
            return;
        }
        open = false;
        if (!iterators.isEmpty()) {
            LOG.warn("{} iterators of the store {} were not closed", iterators.size(), name);
            for (AutoCloseable iterator : iterators) {
                try {
                    iterator.close();
                } catch (Exception e) {
                    LOG.warn("closing an iterator of the store {}", name, e);
                }
            }
            iterators.clear();
        }
        // What was not committed is not to be there.
        discardParts();
        staged = 0;
        metrics.close();
        engine.release(key);
    }

    final void check() {
        if (!open) {
            throw new InvalidStateStoreException("Store " + name + " is currently closed");
        }
    }

    final RuntimeException failed(String what, TerraceException e) {
        if (e.kind() == TerraceException.Kind.CLOSED && !open) {
            return new InvalidStateStoreException("Store " + name + " is currently closed", e);
        }
        return new ProcessorStateException(what + " the store " + name + ": " + e.getMessage(), e);
    }

    final <T extends AutoCloseable> T opened(T iterator) {
        iterators.add(iterator);
        return iterator;
    }

    final void ended(AutoCloseable iterator) {
        iterators.remove(iterator);
    }

    // ---- writing

    /** Behind each change of the owner. */
    final void changed(long moreBytes) {
        staged += moreBytes;
        took = true;
        tookNow = true;
        if (context != null) {
            context.recordMetadata().ifPresent(this::at);
        }
        if (staged > stagedMost && !transactional) {
            spill();
        }
    }

    /** A record came too late. */
    final void dropped() {
        metrics.dropped();
    }

    /** The owner has seen a record, whether it has changed anything or not. */
    final void at(RecordMetadata record) {
        if (record.topic() != null) {
            position.withComponent(record.topic(), record.partition(), record.offset());
            moved = true;
        }
    }

    /**
     * Streams does not commit a running task under exactly-once before 4.4, so what waits would grow for ever. It is written
     * without offsets, and marked: who finds the mark knows that the data may be of a transaction that was never committed.
     */
    private void spill() {
        dirty = exactlyOnce;
        write(committed.offsets);
    }

    @Override
    public final void commit(Map<TopicPartition, Long> changelogOffsets) {
        check();
        Map<TopicPartition, Long> offsets = new HashMap<>();
        if (!changelogOffsets.isEmpty()) {
            offsets.putAll(committed.offsets);
            changelogOffsets.forEach((partition, offset) -> {
                if (offset == null) {
                    offsets.remove(partition);
                } else {
                    offsets.put(partition, tookNow || offset == Committed.UNKNOWN ? offset : kept(partition));
                }
            });
        }
        boolean wasDirty = dirty;
        dirty = false;
        boolean isSaid = refWritten || !took;
        if (staged == 0 && !moved && !wasDirty && isSaid && took == committed.took && offsets.equals(committed.offsets)) {
            return;
        }
        write(offsets);
        if (!refWritten && (took || !offsets.isEmpty())) {
            try {
                Ref.write(refFolder, Ref.text(committed.token, committed.token2));
                refWritten = true;
            } catch (IOException e) {
                throw new ProcessorStateException("writing " + refFolder + " of the store " + name, e);
            }
        }
    }

    /**
     * An offset says that the store has all records before it. A store that has taken none since it was opened has what it had,
     * whoever says more: an old file of Streams does, when it is moved into the stores.
     */
    private Long kept(TopicPartition partition) {
        return committed.offsets.getOrDefault(partition, Committed.UNKNOWN);
    }

    private void write(Map<TopicPartition, Long> offsets) {
        long began = System.nanoTime();
        Committed now = new Committed(committed.token, committed.token2, committed.layout, took, dirty, streamTime(), offsets,
            Committed.of(position));
        try {
            for (Part part : parts()) {
                if (part.isStaged()) {
                    part.encode(engine.db, batch);
                }
            }
            // Nothing of this store is to be kept yet: it has no folder that would be wiped with it.
            if (batch.size() == 0 && !refWritten && offsets.isEmpty()) {
                return;
            }
            batch.put(engine.stores, key.getBytes(StandardCharsets.UTF_8), now.encode());
            engine.db.write(batch, Durability.BUFFERED);
        } catch (TerraceException e) {
            throw failed("committing", e);
        } finally {
            batch.clear();
        }
        committed = now;
        for (Part part : parts()) {
            if (part.isStaged()) {
                part.written();
            }
        }
        long bytes = staged;
        staged = 0;
        moved = false;
        try {
            expire();
        } catch (TerraceException e) {
            throw failed("dropping what has expired of", e);
        }
        metrics.committed(bytes, System.nanoTime() - began);
    }

    @Override
    public final Long committedOffset(TopicPartition partition) {
        return committed == null ? null : committed.offsets.get(partition);
    }

    /** How much waits for the commit: Streams 4.4 commits by it. */
    public final long approximateNumUncommittedBytes() {
        return staged;
    }

    final long stagedBytes() {
        return staged;
    }

    // ---- restoring

    /** Records of the changelog are committed already: they may be written before their offset is. */
    private void restoreAll(Collection<KeyValue<byte[], byte[]>> records) {
        check();
        took = true;
        tookNow = true;
        try {
            for (KeyValue<byte[], byte[]> record : records) {
                if (record.key != null) {
                    restore(record.key, record.value);
                }
                if (batch.bytes() > RESTORED_AT_ONCE) {
                    writeRestored();
                }
            }
            if (batch.size() > 0) {
                writeRestored();
            }
        } catch (TerraceException e) {
            throw failed("restoring", e);
        } finally {
            batch.clear();
        }
    }

    private void writeRestored() {
        // Not dirty by this, but still so if it was.
        write(committed.offsets);
    }

    /** A record as it is in a part: it does not wait, for it is committed. */
    final void restored(Part part, byte[] key, byte[] value) {
        part.restore(engine.db, batch, key, value);
    }

    // ---- queries

    @Override
    public final Position getPosition() {
        return position;
    }

    @Override
    public final <R> QueryResult<R> query(Query<R> query, PositionBound bound, QueryConfig config) {
        return Queries.answer(query, bound, config, this, position, context);
    }

    /** A key that a change can have. */
    final Bytes usable(Bytes key, int more) {
        int length = notNull(key).get().length + more;
        if (length > LONGEST_KEY) {
            throw new ProcessorStateException("a key of the store " + name + " has " + length + " bytes, and Terrace takes "
                + LONGEST_KEY + " at most; shorten it, or keep this store in RocksDB");
        }
        return key;
    }

    static Bytes notNull(Bytes key) {
        return java.util.Objects.requireNonNull(key, "key cannot be null");
    }
}
