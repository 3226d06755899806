package org.terrace.kafka;

import org.apache.kafka.streams.DslStoreFormat;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.state.DslKeyValueParams;
import org.apache.kafka.streams.state.DslSessionParams;
import org.apache.kafka.streams.state.DslStoreSuppliers;
import org.apache.kafka.streams.state.DslWindowParams;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;

/**
 * All stores of a topology on Terrace: {@code props.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG,
 * TerraceDslStoreSuppliers.class)}. Memory for all of them together is {@code terrace.memory} (256 MiB).
 */
public final class TerraceDslStoreSuppliers implements DslStoreSuppliers {
    /** Made by Streams. */
    public TerraceDslStoreSuppliers() {}

    @Override
    public KeyValueBytesStoreSupplier keyValueStore(DslKeyValueParams params) {
        if (params.dslStoreFormat() == DslStoreFormat.HEADERS) {
            return TerraceStores.timestampedKeyValueStoreWithHeaders(params.name());
        }
        return params.dslStoreFormat() == DslStoreFormat.PLAIN ? TerraceStores.keyValueStore(params.name())
            : TerraceStores.timestampedKeyValueStore(params.name());
    }

    @Override
    public WindowBytesStoreSupplier windowStore(DslWindowParams params) {
        if (params.emitStrategy().type() == EmitStrategy.StrategyType.ON_WINDOW_CLOSE) {
            return TerraceStores.closingWindowStore(params.name(), params.retentionPeriod(), params.windowSize(),
                params.retainDuplicates(), params.dslStoreFormat() == DslStoreFormat.HEADERS);
        }
        if (params.dslStoreFormat() == DslStoreFormat.HEADERS) {
            return TerraceStores.timestampedWindowStoreWithHeaders(params.name(), params.retentionPeriod(), params.windowSize(),
                params.retainDuplicates());
        }
        return params.dslStoreFormat() == DslStoreFormat.PLAIN
            ? TerraceStores.windowStore(params.name(), params.retentionPeriod(), params.windowSize(), params.retainDuplicates())
            : TerraceStores.timestampedWindowStore(params.name(), params.retentionPeriod(), params.windowSize(),
                params.retainDuplicates());
    }

    @Override
    public SessionBytesStoreSupplier sessionStore(DslSessionParams params) {
        return params.storeFormat() == DslStoreFormat.HEADERS
            ? TerraceStores.sessionStoreWithHeaders(params.name(), params.retentionPeriod())
            : TerraceStores.sessionStore(params.name(), params.retentionPeriod());
    }
}
