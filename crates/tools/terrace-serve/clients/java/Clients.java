// Jedis: caches, queues, locks, subscribes.
import java.util.*;
import java.util.concurrent.*;
import redis.clients.jedis.*;
import redis.clients.jedis.params.*;

public class Clients {
    static void is(Object got, Object wanted) {
        if (!Objects.equals(got, wanted)) throw new AssertionError(got + ", not " + wanted);
    }

    public static void main(String[] args) throws Exception {
        int port = Integer.parseInt(args[0]);
        try (JedisPooled r = new JedisPooled("127.0.0.1", port); Jedis one = new Jedis("127.0.0.1", port)) {
            one.flushAll();
            is(r.set("page", "text", SetParams.setParams().ex(100)), "OK");
            is(r.get("page"), "text");
            is(r.set("page", "x", SetParams.setParams().nx()), null);
            r.hset("user", Map.of("name", "Ann", "age", "7"));
            is(r.hgetAll("user"), Map.of("name", "Ann", "age", "7"));
            Transaction t = one.multi();
            t.incr("n");
            t.incr("n");
            is(t.exec(), List.of(1L, 2L));
            ExecutorService threads = Executors.newCachedThreadPool();
            Future<List<String>> waits = threads.submit(() -> r.blpop(30, "queue"));
            r.rpush("queue", "x");
            is(waits.get(), List.of("queue", "x"));
            String release = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
            is(r.set("lock", "mine", SetParams.setParams().px(10000).nx()), "OK");
            is(r.eval(release, List.of("lock"), List.of("other")), 0L);
            is(r.eval(release, List.of("lock"), List.of("mine")), 1L);
            BlockingQueue<String> heard = new LinkedBlockingQueue<>();
            CountDownLatch listens = new CountDownLatch(1);
            JedisPubSub listener = new JedisPubSub() {
                @Override public void onSubscribe(String channel, int channels) { listens.countDown(); }
                @Override public void onMessage(String channel, String text) { heard.add(text); unsubscribe(); }
            };
            Future<?> listening = threads.submit(() -> { try (Jedis j = new Jedis("127.0.0.1", port)) { j.subscribe(listener, "news"); } });
            listens.await();
            r.publish("news", "hello");
            is(heard.poll(30, TimeUnit.SECONDS), "hello");
            listening.get();
            r.zadd("z", Map.of("a", 1.0, "b", 2.5));
            is(r.zrange("z", 0, -1), List.of("a", "b"));
            Set<String> seen = new HashSet<>();
            for (int i = 0; i < 300; i++) r.sadd("set", "m" + i);
            String cursor = "0";
            do {
                var step = r.sscan("set", cursor);
                seen.addAll(step.getResult());
                cursor = step.getCursor();
            } while (!cursor.equals("0"));
            is(seen.size(), 300);
            threads.shutdown();
        }
        System.out.println("Jedis: well");
    }
}
