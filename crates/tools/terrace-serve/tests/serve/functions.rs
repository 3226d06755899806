//! Functions that clients call by name.

use terrace_serve::Server;

use crate::client::{Client, Served, Value, database, options};
use crate::oracle::Redis;

const LIB: &[u8] = b"#!lua name=mylib
local function add(keys, args)
  return redis.call('INCRBY', keys[1], args[1])
end
redis.register_function('add', add)
redis.register_function{
  function_name = 'look',
  callback = function(keys) return redis.call('GET', keys[1]) end,
  flags = {'no-writes'},
  description = 'looks',
}
redis.register_function{
  function_name = 'lies',
  callback = function(keys) return redis.call('SET', keys[1], 1) end,
  flags = {'no-writes'},
}
";

#[test]
fn functions_are_answered_as_by_redis() {
    let Some(redis) = Redis::start() else {
        return;
    };
    let served = Served::new();
    let mut clients = [Client::new(redis.address), served.client()];
    let load = |source: &'static [u8]| vec![b"FUNCTION".as_slice(), b"LOAD", source];
    let replace = |source: &'static [u8]| vec![b"FUNCTION".as_slice(), b"LOAD", b"REPLACE", source];
    let say = |words: &'static str| words.split(' ').map(str::as_bytes).collect::<Vec<_>>();
    let mut commands = vec![
        load(b"return 1"),
        load(b"#!nosuch name=x\nreturn 1"),
        load(b"#!lua\nreturn 1"),
        load(b"#!lua name=a-b\nreturn 1"),
        load(b"#!lua name=x\nreturn 1"),
        load(b"#!lua name=x\nthis is nothing"),
        load(b"#!lua name=x\nredis.register_function('a b', function() end)"),
        load(LIB),
        load(LIB),
        replace(LIB),
        load(b"#!lua name=other\nredis.register_function('add', function() end)"),
        load(b"#!lua name=third\nredis.register_function('hi', function(k, a) return {#k, #a, a[1]} end)"),
    ];
    for words in [
        "FCALL add 1 n 5",
        "FCALL ADD 1 n 2",
        "FCALL look 1 n",
        "FCALL_RO look 1 n",
        "FCALL_RO add 1 n 1",
        "FCALL lies 1 n",
        "FCALL nosuch 0",
        "FCALL add x n",
        "FCALL add 5 n",
        "FCALL add -1 n",
        "FCALL hi 2 a b c d",
        "FUNCTION LIST LIBRARYNAME third WITHCODE",
        "FUNCTION LIST LIBRARYNAME nosuch",
        "FUNCTION STATS",
        "FUNCTION DELETE nosuch",
        "FUNCTION DELETE third",
        "FCALL hi 0",
        "FUNCTION KILL",
        "FUNCTION FLUSH",
        "FCALL add 1 n 5",
        "GET n",
    ] {
        commands.push(say(words));
    }
    for command in commands {
        let answers = clients.each_mut().map(|client| match client.ask(&command) {
            Value::Error(text) => Value::Error(text.split(' ').next().unwrap().to_owned()),
            other => other,
        });
        let said: Vec<_> = command.iter().map(|w| String::from_utf8_lossy(w)).collect();
        assert_eq!(answers[0], answers[1], "{}", said.join(" "));
    }
    // A dump of one is restored by the other.
    for (from, to) in [(0, 1), (1, 0)] {
        clients[from].ask(&[b"FUNCTION", b"LOAD", b"REPLACE", LIB]);
        let Value::Bulk(dump) = clients[from].say("FUNCTION DUMP") else {
            panic!("no dump");
        };
        let restored = clients[to].ask(&[b"FUNCTION", b"RESTORE", &dump, b"FLUSH"]);
        assert_eq!(restored.text(), "OK");
        assert_eq!(clients[to].say("FCALL look 1 n").text(), "7");
    }
}

#[test]
fn a_transaction_that_goes_to_the_pool_loads_a_library_once() {
    let served = Served::new();
    let mut client = served.client();
    // The loop leaves so large a dump to the pool.
    client.ask(&[b"SET", b"large", &[b'x'; 100_000]]);
    let Value::Bulk(dump) = client.say("DUMP large") else {
        panic!("no dump");
    };
    client.say("MULTI");
    client.ask(&[b"FUNCTION", b"LOAD", LIB]);
    client.ask(&[b"RESTORE", b"copy", b"0", &dump]);
    let answer = client.say("EXEC");
    let texts: Vec<String> = answer.items().iter().map(Value::text).collect();
    assert_eq!(texts, ["mylib", "OK"]);
}

#[test]
fn functions_stay_over_a_restart_and_for_all_threads() {
    let served = Served::new();
    let mut client = served.client();
    assert_eq!(client.ask(&[b"FUNCTION", b"LOAD", LIB]).text(), "mylib");
    let changed = b"#!lua name=other\nredis.register_function('hi', function() return 1 end)";
    client.ask(&[b"FUNCTION", b"LOAD", changed]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = served.client();
                for _ in 0..50 {
                    client.say("FCALL add 1 n 2");
                }
            });
        }
    });
    assert_eq!(client.say("GET n").text(), "400");
    let changed = b"#!lua name=other\nredis.register_function('hi', function() return 2 end)";
    client.ask(&[b"FUNCTION", b"LOAD", b"REPLACE", changed]);
    for _ in 0..4 {
        assert_eq!(served.client().say("FCALL hi 0"), Value::Integer(2));
    }
    let Served { server, dir, .. } = served;
    server.stop().unwrap();
    let server = Server::start(database(dir.path(), 64 << 20), options()).unwrap();
    let mut client = Client::new(server.addresses()[0]);
    assert_eq!(client.say("FCALL add 1 n 1"), Value::Integer(401));
    assert_eq!(client.say("FUNCTION DELETE mylib").text(), "OK");
    server.stop().unwrap();
    let server = Server::start(database(dir.path(), 64 << 20), options()).unwrap();
    let mut client = Client::new(server.addresses()[0]);
    assert!(client.say("FCALL add 1 n 1").text().contains("not found"));
    assert_eq!(client.say("FCALL hi 0"), Value::Integer(2));
}
