package org.terrace.broker;

import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import org.terrace.kafka.TerraceDslStoreSuppliers;

/**
 * An application as people write them: counts events for each user, in all and by minute, joins them to a table of names, and
 * answers queries over HTTP. It may be killed at any time.
 */
public final class Counts {
    private Counts() {}

    /** Modes of processing. */
    static void mode(Properties properties, String mode) {
        if (!mode.equals("alos")) {
            properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        }
        if (mode.equals("eos-transactional")) {
            // Of 4.4.
            properties.put("enable.transactional.statestores", true);
        }
    }

    /**
     * Runs until it is killed.
     *
     * @param arguments the broker, the folder for the state, the mode, the port for queries (0: none)
     * @throws Exception if it cannot begin
     */
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "counts");
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        properties.put(StreamsConfig.STATE_DIR_CONFIG, arguments[1]);
        properties.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, TerraceDslStoreSuppliers.class);
        properties.put("terrace.memory", "64MiB");
        properties.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        properties.put(StreamsConfig.NUM_STANDBY_REPLICAS_CONFIG, 1);
        properties.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 500);
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put("auto.offset.reset", "earliest");
        properties.put("session.timeout.ms", 10_000);
        mode(properties, arguments[2]);

        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> events = builder.stream("events", Consumed.with(Serdes.String(), Serdes.String()));
        KTable<String, Long> totals = events.groupByKey(Grouped.with(Serdes.String(), Serdes.String())).count(Materialized.as("totals"));
        totals.toStream().to("totals", Produced.with(Serdes.String(), Serdes.Long()));
        events.groupByKey().windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMinutes(1), Duration.ofMinutes(1)))
            .count(Materialized.as("by-minute"));
        KTable<String, String> names = builder.table("names", Materialized.as("names"));
        totals.join(names, (count, name) -> name + " " + count).toStream().to("named");

        KafkaStreams streams = new KafkaStreams(builder.build(properties), properties);
        streams.setUncaughtExceptionHandler(e -> {
            System.err.println("FAILED " + e);
            e.printStackTrace();
            return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        int port = Integer.parseInt(arguments[3]);
        if (port > 0) {
            HttpServer server = HttpServer.create(new InetSocketAddress("localhost", port), 0);
            server.createContext("/", exchange -> {
                byte[] answer;
                int status = 200;
                try {
                    ReadOnlyKeyValueStore<String, Long> store = streams.store(
                        StoreQueryParameters.fromNameAndType("totals", QueryableStoreTypes.<String, Long>keyValueStore()));
                    answer = String.valueOf(store.get(exchange.getRequestURI().getPath().substring(1))).getBytes(StandardCharsets.UTF_8);
                } catch (RuntimeException e) {
                    status = 503;
                    answer = e.toString().getBytes(StandardCharsets.UTF_8);
                }
                exchange.sendResponseHeaders(status, answer.length);
                exchange.getResponseBody().write(answer);
                exchange.close();
            });
            server.start();
        }
        streams.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(20))));
        Thread.sleep(Long.MAX_VALUE);
    }
}
