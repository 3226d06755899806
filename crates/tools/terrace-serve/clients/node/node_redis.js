// node-redis: caches, queues, locks, subscribes.
import assert from "node:assert/strict";
import { createClient } from "redis";

const socket = { port: Number(process.argv[2]), host: "127.0.0.1" };
for (const RESP of [2, 3]) {
  const r = createClient({ socket, RESP }), other = createClient({ socket, RESP }), listener = createClient({ socket, RESP });
  await Promise.all([r.connect(), other.connect(), listener.connect()]);
  await r.flushAll();
  await r.set("page", "text", { EX: 100 });
  assert.equal(await r.get("page"), "text");
  assert.equal(await r.set("page", "x", { NX: true }), null);
  await r.hSet("user", { name: "Ann", age: "7" });
  assert.deepEqual({ ...(await r.hGetAll("user")) }, { name: "Ann", age: "7" });
  assert.deepEqual(await r.multi().incr("n").incr("n").exec(), [1, 2]);
  const waits = other.blPop("queue", 30);
  await r.rPush("queue", "x");
  assert.equal((await waits).element, "x");
  const release = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
  assert.equal(await r.set("lock", "mine", { PX: 10000, NX: true }), "OK");
  assert.equal(await r.eval(release, { keys: ["lock"], arguments: ["other"] }), 0);
  assert.equal(await r.eval(release, { keys: ["lock"], arguments: ["mine"] }), 1);
  let tell;
  const heard = new Promise(done => { tell = done; });
  await listener.subscribe("news", text => tell(text));
  await r.publish("news", "hello");
  assert.equal(await heard, "hello");
  await r.zAdd("z", [{ score: 1, value: "a" }, { score: 2.5, value: "b" }]);
  assert.deepEqual(await r.zRangeWithScores("z", 0, -1), [{ score: 1, value: "a" }, { score: 2.5, value: "b" }]);
  const all = new Set();
  await Promise.all(Array.from({ length: 300 }, (_, i) => r.sAdd("set", "m" + i)));
  for await (const some of r.sScanIterator("set")) [some].flat().forEach(one => all.add(one));
  assert.equal(all.size, 300);
  for (const one of [r, other, listener]) one.destroy();
  console.log(`node-redis, protocol ${RESP}: well`);
}
