package org.terrace.kafka;

import java.util.Map;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.query.FailureReason;
import org.apache.kafka.streams.query.KeyQuery;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.Query;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.query.RangeQuery;
import org.apache.kafka.streams.query.ResultOrder;
import org.apache.kafka.streams.query.WindowKeyQuery;
import org.apache.kafka.streams.query.WindowRangeQuery;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowStore;

/** Interactive queries by their public classes, for stores of bytes. */
final class Queries {
    private Queries() {}

    @SuppressWarnings("unchecked")
    static <R> QueryResult<R> answer(Query<R> query, PositionBound bound, QueryConfig config, Store store, Position position,
            StateStoreContext context) {
        long began = System.nanoTime();
        QueryResult<R> result;
        Position before = position.copy();
        if (context == null || !isReached(before, bound, context.taskId().partition())) {
            result = QueryResult.notUpToBound(before, bound, context == null ? null : context.taskId().partition());
        } else {
            try {
                Object answer = of(query, store);
                result = answer == UNKNOWN ? QueryResult.forUnknownQueryType(query, store) : QueryResult.forResult((R) answer);
            } catch (RuntimeException e) {
                result = QueryResult.forFailure(FailureReason.STORE_EXCEPTION,
                    store.name() + " failed to answer " + query + ": " + e);
            }
        }
        if (config.isCollectExecutionInfo()) {
            result.addExecutionInfo("Handled in " + store.getClass() + " in " + (System.nanoTime() - began) + "ns");
        }
        result.setPosition(before);
        return result;
    }

    private static final Object UNKNOWN = new Object();

    @SuppressWarnings("unchecked")
    private static Object of(Query<?> query, Store store) {
        if (store instanceof KeyValueStore) {
            KeyValueStore<Bytes, byte[]> records = (KeyValueStore<Bytes, byte[]>) store;
            if (query instanceof KeyQuery) {
                return records.get(((KeyQuery<Bytes, byte[]>) query).getKey());
            }
            if (query instanceof RangeQuery) {
                RangeQuery<Bytes, byte[]> range = (RangeQuery<Bytes, byte[]>) query;
                Bytes from = range.getLowerBound().orElse(null);
                Bytes to = range.getUpperBound().orElse(null);
                return range.resultOrder() == ResultOrder.DESCENDING ? records.reverseRange(from, to) : records.range(from, to);
            }
        } else if (store instanceof WindowStore) {
            WindowStore<Bytes, byte[]> windows = (WindowStore<Bytes, byte[]>) store;
            if (query instanceof WindowKeyQuery) {
                WindowKeyQuery<Bytes, byte[]> of = (WindowKeyQuery<Bytes, byte[]>) query;
                if (of.getTimeFrom().isPresent() && of.getTimeTo().isPresent()) {
                    return windows.fetch(of.getKey(), of.getTimeFrom().get(), of.getTimeTo().get());
                }
            }
            if (query instanceof WindowRangeQuery) {
                WindowRangeQuery<Bytes, byte[]> of = (WindowRangeQuery<Bytes, byte[]>) query;
                if (of.getTimeFrom().isPresent() && of.getTimeTo().isPresent()) {
                    return windows.fetchAll(of.getTimeFrom().get(), of.getTimeTo().get());
                }
            }
        } else if (store instanceof SessionStore && query instanceof WindowRangeQuery) {
            WindowRangeQuery<Bytes, byte[]> of = (WindowRangeQuery<Bytes, byte[]>) query;
            if (of.getKey().isPresent()) {
                return ((SessionStore<Bytes, byte[]>) store).fetch(of.getKey().get());
            }
        }
        return UNKNOWN;
    }

    private static boolean isReached(Position position, PositionBound bound, int partition) {
        Position least = bound.position();
        for (String topic : least.getTopics()) {
            Long needed = least.getPartitionPositions(topic).get(partition);
            Map<Integer, Long> seen = position.getPartitionPositions(topic);
            if (needed != null && (seen.get(partition) == null || seen.get(partition) < needed)) {
                return false;
            }
        }
        return true;
    }
}
