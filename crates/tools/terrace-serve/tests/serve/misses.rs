//! What one record misses is read for many clients by one thread of the database: no thread of the pool is held, and
//! answers come in their order.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use terrace::{Database, Options};
use terrace_serve::{ServeOptions, Server};
use terrace_sim::{Call, HookedDisk, SimDisk};

use crate::client::{Client, Value, encoded, options};

/// Far longer than anything here takes on a busy machine.
const LONG: Duration = Duration::from_secs(60);
const KEYS: usize = 30_000;

/// Keeps threads of the pool that sync while it is closed.
#[derive(Default)]
struct Gate {
    closed: Mutex<bool>,
    changed: Condvar,
    /// Whether one of them has come.
    has_one: AtomicBool,
}

impl Gate {
    fn set(&self, closed: bool) {
        *self.closed.lock().unwrap() = closed;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let thread = std::thread::current();
        if !thread
            .name()
            .is_some_and(|name| name.starts_with("serve-pool-"))
        {
            return;
        }
        let closed = self.closed.lock().unwrap();
        if *closed {
            self.has_one.store(true, Ordering::SeqCst);
        }
        drop(self.changed.wait_while(closed, |closed| *closed).unwrap());
    }
}

/// Opens it, also where a test fails: the server would never end.
struct Opens(Arc<Gate>);

impl Drop for Opens {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

fn served() -> (Arc<Gate>, Server) {
    let gate = Arc::<Gate>::default();
    let of_disk = gate.clone();
    let disk = HookedDisk::new(SimDisk::new(1).shared(), move |call| {
        if matches!(call, Call::Sync(_)) {
            of_disk.pass();
        }
    });
    // With less a page may leave again and again before it is looked at, and a thread reads it then.
    let small = Options::new().memory(6 << 20).page_size(4096);
    let db = Database::open_on(Arc::new(disk), small).unwrap();
    let options = ServeOptions {
        loops: 1,
        pool: 1,
        ..options()
    };
    let server = Server::start(db, options).unwrap();
    let mut client = Client::new(server.addresses()[0]);
    for first in (0..KEYS).step_by(100) {
        let sets: Vec<Vec<u8>> = (first..first + 100)
            .map(|i| encoded(&[b"SET", &key(i), &value(i)]))
            .collect();
        client.socket.write_all(&sets.concat()).unwrap();
        (0..100).for_each(|_| assert_eq!(client.read().text(), "OK"));
    }
    (gate, server)
}

fn key(i: usize) -> Vec<u8> {
    format!("key:{i}").into_bytes()
}

fn value(i: usize) -> Vec<u8> {
    format!("{i} of many ").repeat(20).into_bytes()
}

/// The n-th key of a client.
fn some(client: usize, n: usize) -> usize {
    (client * 7919 + n * 104_729) % KEYS
}

#[test]
fn clients_whose_records_are_on_disk_hold_no_thread() {
    let (gate, server) = served();
    let address = server.addresses()[0];
    // The only thread of the pool is held up.
    gate.set(true);
    let opens = Opens(gate.clone());
    let mut holds = Client::new(address);
    holds.send(&[b"SAVE"]);
    let begun = Instant::now();
    while !gate.has_one.load(Ordering::SeqCst) {
        assert!(begun.elapsed() < LONG, "the pool does nothing");
        std::thread::sleep(Duration::from_millis(1));
    }
    let read = || server.host().store.db.stats().pages.reads;
    let before = read();
    let mut clients: Vec<Client> = (0..40).map(|_| Client::new(address)).collect();
    for (i, client) in clients.iter_mut().enumerate() {
        let all: Vec<Vec<u8>> = (0..20)
            .map(|n| encoded(&[b"GET", &key(some(i, n))]))
            .collect();
        client.socket.write_all(&all.concat()).unwrap();
    }
    for (i, client) in clients.iter_mut().enumerate() {
        for n in 0..20 {
            assert_eq!(client.read(), Value::Bulk(value(some(i, n))), "{i}, {n}");
        }
    }
    // Most were not in memory.
    assert!(read() - before > 200, "{}", read() - before);
    drop(opens);
    assert_eq!(holds.read().text(), "OK");
    server.stop().unwrap();
}

/// The pages of a pipeline are read together: it waits a few times, not once for each.
#[test]
fn a_pipeline_of_cold_records_waits_for_all_of_them_at_once() {
    let (_, server) = served();
    let mut client = Client::new(server.addresses()[0]);
    let parked = || server.host().counts.parked.load(Ordering::SeqCst);
    let read = || server.host().store.db.stats().pages.reads;
    let before = (parked(), read());
    for round in 0..10 {
        let all: Vec<Vec<u8>> = (0..64)
            .map(|n| match n {
                // Others in between change nothing of what is answered.
                20 => encoded(&[b"GET", b"none"]),
                40 => encoded(&[b"STRLEN", &key(some(round, n))]),
                63 => encoded(&[b"GET"]),
                _ => encoded(&[b"GET", &key(some(round, n))]),
            })
            .collect();
        client.socket.write_all(&all.concat()).unwrap();
        for n in 0..64 {
            let of = some(round, n);
            match n {
                20 => assert_eq!(client.read(), Value::Null),
                40 => assert_eq!(client.read(), Value::Integer(value(of).len() as i64)),
                63 => assert!(client.read().text().starts_with("ERR wrong number")),
                _ => assert_eq!(client.read(), Value::Bulk(value(of)), "{round}, {n}"),
            }
        }
    }
    let (parked, read) = (parked() - before.0, read() - before.1);
    assert!(read > 200, "{read}");
    // One by one it is as often. A pipeline that comes in parts is looked at in parts.
    assert!(parked < read / 2, "{parked} times for {read} pages");
    server.stop().unwrap();
}

/// Commands that wait for a page and those behind them are answered in their order, and see one another's changes.
#[test]
fn answers_come_in_their_order_whatever_they_wait_for() {
    let (_, server) = served();
    let address = server.addresses()[0];
    let mut clients: Vec<Client> = (0..20).map(|_| Client::new(address)).collect();
    for (i, client) in clients.iter_mut().enumerate() {
        let all: Vec<Vec<u8>> = (0..20)
            .flat_map(|n| {
                let key = key(some(i, n));
                let mine = format!("mine:{i}:{n}").into_bytes();
                [
                    encoded(&[b"GET", &key]),
                    encoded(&[b"SET", &mine, &key]),
                    encoded(&[b"GET", &mine]),
                    encoded(&[b"HSET", b"all", &mine, &key]),
                    encoded(&[b"STRLEN", &key]),
                ]
            })
            .collect();
        client.socket.write_all(&all.concat()).unwrap();
    }
    for (i, client) in clients.iter_mut().enumerate() {
        for n in 0..20 {
            let of = some(i, n);
            assert_eq!(client.read(), Value::Bulk(value(of)), "{i}, {n}");
            assert_eq!(client.read().text(), "OK");
            assert_eq!(client.read(), Value::Bulk(key(of)));
            assert_eq!(client.read(), Value::Integer(1));
            assert_eq!(client.read(), Value::Integer(value(of).len() as i64));
        }
    }
    // A change of what is watched is not passed over, though a page was waited for in between.
    let [one, other] = &mut clients[..2] else {
        unreachable!()
    };
    for n in 0..20 {
        one.say("WATCH mine:0:0");
        let cold = key(some(77, n));
        assert_eq!(one.ask(&[b"GET", &cold]), Value::Bulk(value(some(77, n))));
        other.say(&format!("SET mine:0:0 {n}"));
        one.say("MULTI");
        one.ask(&[b"GET", &key(some(78, n))]);
        one.say("SET mine:0:0 lost");
        assert_eq!(one.say("EXEC"), Value::Null);
    }
    assert_eq!(one.say("HLEN all"), Value::Integer(400));
    server.stop().unwrap();
}

/// The server stops while many wait for pages: what was begun is answered.
#[test]
fn who_waits_for_a_page_when_the_server_stops_is_answered() {
    let (_, server) = served();
    let address = server.addresses()[0];
    let mut clients: Vec<Client> = (0..40).map(|_| Client::new(address)).collect();
    for (i, client) in clients.iter_mut().enumerate() {
        client.send(&[b"GET", &key(some(i, 3))]);
    }
    // All of them were seen: the last one is answered.
    assert_eq!(clients[39].read(), Value::Bulk(value(some(39, 3))));
    server.stop().unwrap();
    for (i, client) in clients[..39].iter_mut().enumerate() {
        // Bytes that no loop has read before the stop are no command.
        if let Ok(answer) = client.try_read() {
            assert_eq!(answer, Value::Bulk(value(some(i, 3))));
        }
    }
}
