package org.terrace.broker;

import java.io.IOException;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Starts one KRaft broker and instances of {@link Counts} that share its work, kills one of them again and again, and looks in
 * the end whether all sums are right: under exactly-once each event was counted once, otherwise once at least.
 */
public final class Killing {
    private static final int USERS = 5000;
    private static final int PARTITIONS = 4;
    /** How long the sums may stay as they are, in nanoseconds: a session of who was killed ends, and its tasks are restored. */
    private static final long PATIENCE = 120_000_000_000L;

    private final Path folder;
    private final int port = free();
    private final String mode;
    private final Process[] instances;
    private final int[] queryPorts;
    private volatile Exception notSent;

    private Killing(Path folder, String mode, int instances) {
        this.folder = folder;
        this.mode = mode;
        this.instances = new Process[instances];
        this.queryPorts = new int[instances];
        for (int i = 0; i < instances; i++) {
            queryPorts[i] = free();
        }
    }

    private static int free() {
        try (ServerSocket socket = new ServerSocket(0)) {
            return socket.getLocalPort();
        } catch (IOException e) {
            throw new IllegalStateException("no free port", e);
        }
    }

    private Process java(String log, String heap, String main, String... arguments) throws IOException {
        List<String> command = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-Xmx" + heap,
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true", "-cp", System.getProperty("java.class.path"), main));
        command.addAll(Arrays.asList(arguments));
        return new ProcessBuilder(command).redirectErrorStream(true)
            .redirectOutput(ProcessBuilder.Redirect.appendTo(folder.resolve(log).toFile())).start();
    }

    private Process broker() throws Exception {
        int controller = free();
        Path settings = folder.resolve("broker.properties");
        Files.writeString(settings, String.join("\n", "process.roles=broker,controller", "node.id=1",
            "controller.quorum.voters=1@localhost:" + controller,
            "listeners=PLAINTEXT://localhost:" + port + ",CONTROLLER://localhost:" + controller,
            "advertised.listeners=PLAINTEXT://localhost:" + port, "controller.listener.names=CONTROLLER",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT", "log.dirs=" + folder.resolve("log"),
            "offsets.topic.replication.factor=1", "transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1",
            "offsets.topic.num.partitions=4", "transaction.state.log.num.partitions=4", "group.initial.rebalance.delay.ms=0",
            "share.coordinator.state.topic.replication.factor=1", "log.segment.bytes=67108864", ""));
        int formatted = java("broker.txt", "128m", "kafka.tools.StorageTool", "format", "-t", Uuid.randomUuid().toString(), "-c",
            settings.toString()).waitFor();
        if (formatted != 0) {
            throw new IllegalStateException("the broker's log was not made: " + Files.readString(folder.resolve("broker.txt")));
        }
        return java("broker.txt", "256m", "kafka.Kafka", settings.toString());
    }

    private void start(int instance) throws IOException {
        instances[instance] = java("client-" + instance + ".txt", "192m", Counts.class.getName(), "localhost:" + port,
            folder.resolve("state-" + instance).toString(), mode, String.valueOf(queryPorts[instance]));
    }

    private void run(int seconds, int interval, int events) throws Exception {
        Process broker = broker();
        // A busy machine takes long to start a broker.
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", "localhost:" + port, "default.api.timeout.ms", "300000"))) {
            List<NewTopic> topics = new ArrayList<>();
            for (String topic : List.of("events", "names", "totals", "named")) {
                topics.add(new NewTopic(topic, PARTITIONS, (short) 1));
            }
            admin.createTopics(topics).all().get();
            for (int i = 0; i < instances.length; i++) {
                start(i);
            }
            long[] expected = new long[USERS];
            Thread producer = new Thread(() -> produce(expected, events, seconds), "producer");
            producer.start();
            int kills = 0;
            long end = System.nanoTime() + seconds * 1_000_000_000L;
            while (System.nanoTime() < end - interval * 500_000_000L) {
                Thread.sleep(interval * 1000L);
                int victim = kills++ % instances.length;
                if (!instances[victim].isAlive()) {
                    throw new IllegalStateException("instance " + victim + " has ended by itself; see " + folder);
                }
                instances[victim].destroyForcibly().waitFor();
                start(victim);
            }
            producer.join();
            if (notSent != null) {
                throw new IllegalStateException("an event was not sent", notSent);
            }
            verify(expected, kills);
        } finally {
            for (Process process : instances) {
                if (process != null) {
                    process.destroyForcibly();
                }
            }
            broker.destroyForcibly();
        }
    }

    private void sent(RecordMetadata sent, Exception failed) {
        if (failed != null) {
            notSent = failed;
        }
    }

    private void produce(long[] expected, int events, int seconds) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", "localhost:" + port);
        properties.put("enable.idempotence", "true");
        properties.put("linger.ms", "20");
        // On a busy machine the broker may take long; each event counts.
        properties.put("max.in.flight.requests.per.connection", "1");
        properties.put("request.timeout.ms", "120000");
        properties.put("delivery.timeout.ms", "300000");
        Random random = new Random(7);
        long begin = System.nanoTime();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            for (int user = 0; user < USERS; user++) {
                producer.send(new ProducerRecord<>("names", "user-" + user, "name " + user), this::sent);
            }
            for (int i = 0; i < events; i++) {
                int user = (int) (USERS * Math.pow(random.nextDouble(), 3));
                expected[user]++;
                producer.send(new ProducerRecord<>("events", "user-" + user, "click"), this::sent);
                long due = begin + (long) (seconds * 1e9 / events * i);
                if (i % 100 == 0 && due > System.nanoTime()) {
                    Thread.sleep(Math.max(1, (due - System.nanoTime()) / 1_000_000));
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** The last totals, as whoever reads committed records has them. */
    private void verify(long[] expected, int kills) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", "localhost:" + port);
        properties.put("isolation.level", "read_committed");
        Map<String, Long> totals = new HashMap<>();
        boolean exactly = !mode.equals("alos");
        List<String> wrong = List.of("nothing was read");
        try (KafkaConsumer<String, Long> consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new LongDeserializer())) {
            List<TopicPartition> all = new ArrayList<>();
            for (int i = 0; i < PARTITIONS; i++) {
                all.add(new TopicPartition("totals", i));
            }
            consumer.assign(all);
            consumer.seekToBeginning(all);
            // A busy machine takes long: it is over when nothing has come for some time.
            long last = System.nanoTime();
            while (!wrong.isEmpty() && System.nanoTime() - last < PATIENCE) {
                for (ConsumerRecord<String, Long> record : consumer.poll(Duration.ofSeconds(1))) {
                    totals.put(record.key(), record.value());
                    last = System.nanoTime();
                }
                wrong = new ArrayList<>();
                for (int user = 0; user < USERS; user++) {
                    long counted = totals.getOrDefault("user-" + user, 0L);
                    if (exactly ? counted != expected[user] : counted < expected[user]) {
                        wrong.add("user-" + user + " has " + counted + " of " + expected[user]);
                    }
                }
            }
        }
        long sum = Arrays.stream(expected).sum();
        long counted = totals.values().stream().mapToLong(n -> n).sum();
        long anew = 0;
        long corrupted = 0;
        for (int i = 0; i < instances.length; i++) {
            String log = Files.readString(folder.resolve("client-" + i + ".txt"));
            anew += log.lines().filter(line -> line.contains("made anew")).count();
            corrupted += log.lines().filter(line -> line.contains("did not find checkpoint offsets")).count();
            if (log.contains("FAILED")) {
                throw new IllegalStateException("an instance has failed; see " + folder);
            }
        }
        System.out.printf("%s: %d events, %d kills: counted %d, %d users wrong; %d stores made anew, %d tasks wiped; a query says %s%n",
            mode, sum, kills, counted, wrong.size(), anew, corrupted, queried(expected));
        if (!wrong.isEmpty()) {
            throw new IllegalStateException(wrong.subList(0, Math.min(5, wrong.size())) + "; see " + folder);
        }
    }

    private String queried(long[] expected) throws Exception {
        HttpClient client = HttpClient.newHttpClient();
        for (int queryPort : queryPorts) {
            try {
                String answer = client.send(HttpRequest.newBuilder(URI.create("http://localhost:" + queryPort + "/user-0"))
                    .timeout(Duration.ofSeconds(5)).build(), HttpResponse.BodyHandlers.ofString()).body();
                if (answer.matches("\\d+")) {
                    return answer + " of " + expected[0];
                }
            } catch (IOException e) {
                // It may just be starting.
            }
        }
        return "nothing yet";
    }

    /**
     * Runs one mode after the other.
     *
     * @param arguments seconds for each, seconds between kills, events, instances, modes
     * @throws Exception if a sum is wrong
     */
    public static void main(String[] arguments) throws Exception {
        int seconds = Integer.parseInt(arguments[0]);
        for (String mode : Arrays.copyOfRange(arguments, 4, arguments.length)) {
            Path folder = Files.createTempDirectory("terrace-broker-" + mode);
            new Killing(folder, mode, Integer.parseInt(arguments[3])).run(seconds, Integer.parseInt(arguments[1]),
                Integer.parseInt(arguments[2]));
        }
    }
}
