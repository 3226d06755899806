import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.BloomFilter;
import org.rocksdb.Cache;
import org.rocksdb.LRUCache;
import org.rocksdb.Options;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksIterator;
import org.rocksdb.Statistics;
import org.rocksdb.TickerType;
import org.rocksdb.WriteBufferManager;

/**
 * RocksDB with the same number for its memory: a cache that write buffers, indexes and filters count to, and files that are read
 * past the system's cache. Pages read are blocks that were not in the cache.
 */
public final class RocksBinding extends Binding {
    private static RocksDB db;
    private static Statistics statistics;

    @Override
    void open(String folder, long memory) throws Exception {
        RocksDB.loadLibrary();
        Cache cache = new LRUCache(memory, -1, false, 0.1);
        BlockBasedTableConfig table = new BlockBasedTableConfig();
        table.setBlockCache(cache).setCacheIndexAndFilterBlocks(true).setPinTopLevelIndexAndFilter(true)
            .setCacheIndexAndFilterBlocksWithHighPriority(true).setFilterPolicy(new BloomFilter(10, false));
        statistics = new Statistics();
        Options options = new Options().setCreateIfMissing(true).setTableFormatConfig(table).setStatistics(statistics)
            .setWriteBufferManager(new WriteBufferManager(memory / 4, cache)).setUseDirectReads(true)
            .setUseDirectIoForFlushAndCompaction(true).setIncreaseParallelism(2);
        db = RocksDB.open(options, folder);
    }

    @Override
    void close() {
        db.close();
    }

    @Override
    byte[] get(byte[] key) throws Exception {
        return db.get(key);
    }

    @Override
    void put(byte[] key, byte[] value) throws Exception {
        db.put(key, value);
    }

    @Override
    void remove(byte[] key) throws Exception {
        db.delete(key);
    }

    @Override
    void from(byte[] key, Taker taker) throws Exception {
        try (RocksIterator all = db.newIterator()) {
            for (all.seek(key); all.isValid() && taker.take(all.key(), all.value()); all.next()) {
                // As many as are wanted.
            }
        }
    }

    @Override
    long pageReads() {
        return statistics.getTickerCount(TickerType.BLOCK_CACHE_MISS);
    }
}
