//! Scripts in Lua.

use terrace_serve::ServeOptions;

use crate::client::{Client, Served, Value, options};
use crate::oracle::Redis;

/// What clients' libraries and recipes use scripts for.
const SCRIPTS: &[(&str, &[&str])] = &[
    ("return 1", &["0"]),
    ("return {1, 2, 'three', {4}}", &["0"]),
    ("return 3.99", &["0"]),
    ("return nil", &["0"]),
    ("return false", &["0"]),
    ("return true", &["0"]),
    ("return {1, nil, 3}", &["0"]),
    ("return {KEYS[1], KEYS[2], ARGV[1]}", &["2", "a", "b", "c"]),
    (
        "return redis.call('SET', KEYS[1], ARGV[1])",
        &["1", "k", "v"],
    ),
    ("return redis.call('GET', KEYS[1])", &["1", "k"]),
    ("return redis.call('GET', 'nothing')", &["0"]),
    ("return redis.call('INCR', KEYS[1])", &["1", "n"]),
    ("return redis.call('INCR', KEYS[1])", &["1", "k"]),
    ("return redis.pcall('INCR', KEYS[1])", &["1", "k"]),
    (
        "local r = redis.pcall('INCR', KEYS[1]); return r.err ~= nil",
        &["1", "k"],
    ),
    ("return redis.error_reply('MYERR oh')", &["0"]),
    ("return redis.status_reply('FINE')", &["0"]),
    ("return {ok = 'well'}", &["0"]),
    ("return redis.sha1hex('')", &["0"]),
    (
        "redis.call('RPUSH', KEYS[1], 1, 2, 3); return redis.call('LRANGE', KEYS[1], 0, -1)",
        &["1", "l"],
    ),
    ("return redis.call('LPOP', KEYS[1])", &["1", "l"]),
    ("return #redis.call('LRANGE', KEYS[1], 0, -1)", &["1", "l"]),
    ("return redis.call('HGETALL', KEYS[1])", &["1", "h"]),
    (
        "redis.call('SET', KEYS[1], 'a'); error('no')",
        &["1", "half"],
    ),
    ("return redis.call('GET', KEYS[1])", &["1", "half"]),
    ("return cjson.encode({1, 2, 3})", &["0"]),
    (
        "return cjson.decode('{\"a\": [1, 2, {\"b\": \"c\"}]}').a[3].b",
        &["0"],
    ),
    (
        "return cjson.encode({1, 2, x = 3}) == '{\"1\":1,\"2\":2,\"x\":3}'",
        &["0"],
    ),
    ("return cjson.encode({1, nil, 3})", &["0"]),
    ("return cjson.encode({[1] = 1, [3] = 2})", &["0"]),
    ("return cjson.encode({[2] = 2})", &["0"]),
    ("return cjson.encode({[1] = 1, [20] = 2})", &["0"]),
    ("return cjson.encode({[11] = 1})", &["0"]),
    ("return cjson.encode({[0] = 1})", &["0"]),
    ("return cjson.encode({[1.5] = 2})", &["0"]),
    ("return cjson.encode({[true] = 1})", &["0"]),
    ("return cjson.encode({})", &["0"]),
    (
        "return cjson.encode({{}, {a = {}}, cjson.null, true, false})",
        &["0"],
    ),
    (
        r"return cjson.encode('a/b\\\255\127\n\0\1\8\12\34')",
        &["0"],
    ),
    (
        "return cjson.encode({0.1, 1e15, 123456789012345, 12345678901234, 1e100, -0.5, 1e-7, 3, 1/3, 100000})",
        &["0"],
    ),
    ("return cjson.encode(0/0)", &["0"]),
    ("return cjson.encode(1/0)", &["0"]),
    ("return cjson.encode(tostring)", &["0"]),
    (
        r"return cjson.decode(cjson.encode('\255\195\169x\200'))",
        &["0"],
    ),
    (
        r"return cjson.decode(cjson.encode({['\255'] = '\254'}))['\255']",
        &["0"],
    ),
    ("return redis.call('NOSUCH')", &["0"]),
    ("return redis.call()", &["0"]),
    ("x = 1", &["0"]),
    ("return x", &["0"]),
    ("this is no script", &["0"]),
    ("return 1", &["-1"]),
    ("return 1", &["5", "a"]),
    (r"return redis.status_reply('a\r\n:1')", &["0"]),
    (r"return {ok = 'a\r\n:1'}", &["0"]),
    ("return redis.status_reply(1)", &["0"]),
    ("return redis.error_reply('oops').err", &["0"]),
    ("return redis.error_reply('-oops').err", &["0"]),
    (r"return redis.error_reply('-MYERR oh\r\n').err", &["0"]),
    ("return redis.error_reply('MYERR oh').err", &["0"]),
    ("return redis.error_reply(1).err", &["0"]),
    ("return redis.error_reply('-MYERR oh')", &["0"]),
    ("return {err = '-MYERR oh'}", &["0"]),
    ("return {double = 3.14}", &["0"]),
    ("return {double = 3}", &["0"]),
    ("return {double = 'x'}", &["0"]),
    ("return {map = {a = 1}}", &["0"]),
    ("return {map = {a = {double = 0.5}}}", &["0"]),
    ("return {set = {a = true}}", &["0"]),
    (r"return {big_number = '12\r\n3'}", &["0"]),
    (
        "return {verbatim_string = {string = 'abc', format = 'txt'}}",
        &["0"],
    ),
    ("return {verbatim_string = {string = 'abc'}}", &["0"]),
    ("redis.setresp(2) return 1", &["0"]),
    ("redis.setresp(5)", &["0"]),
    (
        "return {redis.REPL_ALL, redis.REPL_NONE, redis.REPL_AOF, redis.REPL_SLAVE, redis.REPL_REPLICA, redis.REDIS_VERSION_NUM, redis.REDIS_VERSION}",
        &["0"],
    ),
    ("return redis.acl_check_cmd('get', 'a')", &["0"]),
    ("return redis.acl_check_cmd('nosuch')", &["0"]),
    ("#!lua flags=no-writes\nreturn 1", &["0"]),
    (
        "#!lua flags=no-writes,allow-oom,allow-stale \nreturn 1",
        &["0"],
    ),
    ("#!lua\nreturn redis.call('SET', 'shebang', 1)", &["0"]),
    (
        "#!lua flags=no-writes\nreturn redis.call('SET', 'shebang', 2)",
        &["0"],
    ),
    ("#!lua flags=foo\nreturn 1", &["0"]),
    ("#!lua name=foo\nreturn 1", &["0"]),
    ("#!js\nreturn 1", &["0"]),
    ("#!lua", &["0"]),
    ("return redis.call('GET', 'shebang')", &["0"]),
    ("return redis.call('CLIENT', 'ID')", &["0"]),
    ("return redis.call('CONFIG', 'GET', 'timeout')", &["0"]),
    ("return redis.call('ACL', 'WHOAMI')", &["0"]),
    // The release of a lock.
    (
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
        &["1", "k", "v"],
    ),
    (
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
        &["1", "k", "v"],
    ),
    // A limiter.
    (
        "local n = redis.call('INCR', KEYS[1]) if n == 1 then redis.call('PEXPIREAT', KEYS[1], ARGV[1]) end return n",
        &["1", "limit", "20000000000000"],
    ),
    ("return redis.call('PEXPIRETIME', KEYS[1])", &["1", "limit"]),
    (
        "redis.call('SELECT', 3); return redis.call('SET', 'there', 1)",
        &["0"],
    ),
    ("return redis.call('EXISTS', 'there')", &["0"]),
    (
        "local t = {} for i = 1, 100 do t[i] = redis.call('SADD', 'set', i) end return redis.call('SCARD', 'set')",
        &["0"],
    ),
];

#[test]
fn scripts_are_answered_as_by_redis() {
    let Some(redis) = Redis::start() else {
        return;
    };
    let served = Served::new();
    let mut clients = [Client::new(redis.address), served.client()];
    let twice = SCRIPTS.iter().map(|one| ("2", one));
    for (protocol, (script, arguments)) in twice.chain(SCRIPTS.iter().map(|one| ("3", one))) {
        if *script == SCRIPTS[0].0 {
            for client in &mut clients {
                client.say("FLUSHALL");
                client.ask(&[b"HELLO", protocol.as_bytes()]);
            }
        }
        let answers = clients.each_mut().map(|client| {
            let mut words: Vec<&[u8]> = vec![b"EVAL", script.as_bytes()];
            words.extend(arguments.iter().map(|a| a.as_bytes()));
            match client.ask(&words) {
                Value::Error(text) => Value::Error(text.split(' ').next().unwrap().to_owned()),
                other => other,
            }
        });
        assert_eq!(answers[0], answers[1], "{script} {arguments:?}, {protocol}");
    }
    // Which of them are for scripts at all.
    for command in terrace_serve::COMMANDS {
        let words: [&[u8]; 3] = [b"COMMAND", b"INFO", command.name.as_bytes()];
        let flags = clients
            .each_mut()
            .map(|client| match client.ask(&words).items() {
                [Value::Array(parts)] => {
                    Some(parts[2].items().contains(&Value::Simple("noscript".into())))
                }
                _ => None,
            });
        if let [Some(theirs), Some(ours)] = flags {
            assert!(ours || !theirs, "{} is not for scripts", command.name);
        }
    }
}

#[test]
fn a_script_that_only_reads_tells_nobody_anything() {
    let served = Served::new();
    let mut client = served.client();
    for script in ["return redis.call('PUBLISH', 'a', 'b')", "#!lua\nreturn 1"] {
        let refused = client.ask(&[b"EVAL_RO", script.as_bytes(), b"0"]);
        assert!(matches!(refused, Value::Error(_)), "{script}: {refused:?}");
    }
    let reads = b"#!lua flags=no-writes\nreturn 1";
    assert_eq!(client.ask(&[b"EVAL_RO", reads, b"0"]), Value::Integer(1));
    // What cannot be compiled is not kept, whichever way it came.
    client.say("EVAL nonsense 0");
    let name = client.ask(&[b"SCRIPT", b"LOAD", b"return 1"]).text();
    assert_eq!(name.len(), 40);
    let nonsense = "cb1dc474e185777dad218b7d60f2781723d8190b";
    let known = client.say(&format!("SCRIPT EXISTS {name} {nonsense}"));
    assert_eq!(known.items(), [Value::Integer(1), Value::Integer(0)]);
    // Who listens runs scripts and transactions all the same.
    client.say("SET k v");
    client.say("MULTI");
    client.say("SUBSCRIBE c");
    client.say("GET k");
    client.send(&[b"EXEC"]);
    let answers = client.read();
    assert_eq!(answers.items()[1].text(), "v");
    let mut client = served.client();
    client.say("HELLO 3");
    client.say("SUBSCRIBE c");
    let reads = b"return redis.call('GET', 'k')";
    assert_eq!(client.ask(&[b"EVAL", reads, b"0"]).text(), "v");
}

#[test]
fn scripts_are_called_by_name_and_change_all_or_see_all() {
    let served = Served::new();
    let mut client = served.client();
    assert!(client.say("EVALSHA abc 0").text().starts_with("NOSCRIPT"));
    let name = client.ask(&[b"SCRIPT", b"LOAD", b"return ARGV[1]"]).text();
    assert_eq!(client.say(&format!("EVALSHA {name} 0 x")).text(), "x");
    assert_eq!(
        client.say(&format!("SCRIPT EXISTS {name} abc")).items()[0],
        Value::Integer(1)
    );
    assert!(
        client
            .ask(&[b"EVAL_RO", b"return redis.call('SET','k','v')", b"0"])
            .text()
            .contains("read-only")
    );
    let add = b"for i = 1, 10 do local n = redis.call('GET', KEYS[1]) redis.call('SET', KEYS[1], (n or 0) + 1) redis.call('INCR', 'undeclared') end";
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = served.client();
                for _ in 0..20 {
                    client.ask(&[b"EVAL", add, b"1", b"n"]);
                }
            });
        }
    });
    assert_eq!(client.say("GET n").text(), "800");
    assert_eq!(client.say("GET undeclared").text(), "800");
}

#[test]
fn what_a_script_did_before_it_runs_again_is_not_done_twice() {
    let served = Served::new();
    let mut client = served.client();
    // More changes than are gathered before some are written.
    for from in [0, 5000] {
        let members: Vec<String> = (from..from + 5000).map(|i| i.to_string()).collect();
        client.say(&format!("SADD large {}", members.join(" ")));
    }
    // The last command has to be alone, so all run again.
    let script = b"redis.call('INCR', 'n') redis.call('SUNIONSTORE', 'copy', 'large')
        redis.call('SWAPDB', 1, 2) return redis.call('GET', 'n')";
    assert_eq!(client.ask(&[b"EVAL", script, b"0"]).text(), "1");
    assert_eq!(client.say("SCARD copy"), Value::Integer(10_000));
}

#[test]
fn scripts_load_only_text_and_answer_only_what_ends() {
    let served = Served::new();
    let mut client = served.client();
    let mut eval = |script: &[u8]| client.ask(&[b"EVAL", script, b"0"]);
    let binary = eval(b"\x1bLuaQ");
    assert!(
        binary.text().starts_with("ERR Error compiling"),
        "{binary:?}"
    );
    let chunk = b"return loadstring(string.dump(function() return 7 end)) == nil";
    assert_eq!(eval(chunk), Value::Integer(1));
    let pieces = b"local all = {string.dump(function() return 7 end)} return load(function() return table.remove(all) end) == nil";
    assert_eq!(eval(pieces), Value::Integer(1));
    assert_eq!(eval(b"return loadstring('return 7')()"), Value::Integer(7));
    let twice = eval(b"local t = {} t[1] = t t[2] = t return t");
    assert!(twice.text().contains("stack limit"), "{twice:?}");
    let nested = eval(b"local t = {} for i = 1, 50 do t = {t, t} end return cjson.encode(t)");
    assert!(nested.text().starts_with("ERR"), "{nested:?}");
}

#[test]
fn a_script_that_catches_its_end_ends() {
    let served = Served::new();
    let mut client = served.client();
    for endless in [
        "while true do pcall(function() while true do end end) end",
        "coroutine.wrap(function() while true do pcall(function() while true do end end) end end)()",
    ] {
        let ended = client.ask(&[b"EVAL", endless.as_bytes(), b"0"]);
        assert!(ended.text().contains("too long"), "{ended:?}");
    }
    assert_eq!(client.say("PING").text(), "PONG");
}

#[test]
fn nothing_that_a_script_changes_is_seen_by_the_next() {
    let served = Served::new();
    let mut client = served.client();
    for wrong in [
        "string.format = nil",
        "redis.call = nil",
        "_G.x = 1",
        "x = 1",
        "string = nil",
        "KEYS = 1",
        "rawset(_G, 'x', 1)",
        "rawset(string, 'x', 1)",
        "rawset(redis, 'call', 1)",
        "table.insert(redis, 1)",
        "table.insert(_G, 1)",
        "setmetatable(_G, {})",
        "setmetatable(string, nil)",
        "getmetatable('').__index = {}",
        "getmetatable(math).__index = {}",
        "setfenv(0, {})",
        "cjson.encode = nil",
        "coroutine.wrap = nil",
        "pcall = nil",
        "tostring = nil",
    ] {
        let answer = client.ask(&[b"EVAL", wrong.as_bytes(), b"0"]);
        assert!(matches!(answer, Value::Error(_)), "{wrong}: {answer:?}");
    }
    let whole = b"local t = {} table.insert(t, 2) rawset(t, 'a', 1)
        return {string.format('%d', t[1]), redis.call('PING').ok, rawget(_G, 'x') == nil, #KEYS, ('x'):rep(3), tostring(t.a)}";
    let answer = client.ask(&[b"EVAL", whole, b"1", b"k"]);
    let texts: Vec<String> = answer.items().iter().map(Value::text).collect();
    assert_eq!(texts, ["2", "PONG", "1", "1", "xxx", "1"]);
}

#[test]
fn nothing_of_a_script_that_was_ended_stays() {
    let served = Served::new();
    let mut client = served.client();
    client.say("SET kept 1");
    assert_eq!(client.say("CONFIG SET lua-time-limit 50").text(), "OK");
    let endless =
        b"redis.call('SET', KEYS[1], 'x') redis.call('RPUSH', 'l', 1, 2) redis.call('DEL', 'kept')
        redis.call('PUBLISH', 'news', 'x') while true do end";
    client.say("MULTI");
    client.say("SET before 1");
    client.ask(&[b"EVAL", endless, b"1", b"k"]);
    client.say("INCR before");
    let answers = client.say("EXEC");
    let answers = answers.items();
    assert_eq!(answers[0].text(), "OK");
    assert!(answers[1].text().contains("too long"), "{answers:?}");
    assert_eq!(answers[2], Value::Integer(2));
    let ended = client.ask(&[b"EVAL", endless, b"1", b"k"]);
    assert!(ended.text().contains("too long"), "{ended:?}");
    assert_eq!(client.say("EXISTS k l"), Value::Integer(0));
    assert_eq!(client.say("GET kept").text(), "1");
    // What fails by itself keeps what it did, as in Redis.
    client.ask(&[b"EVAL", b"redis.call('SET', 'half', 1) error('no')", b"0"]);
    assert_eq!(client.say("GET half").text(), "1");
}

#[test]
fn a_long_script_keeps_nobody_else_waiting_and_ends_with_the_server() {
    let served = Served::with(ServeOptions {
        loops: 1,
        ..options()
    });
    let (mut one, mut other) = (served.client(), served.client());
    assert_eq!(one.say("CONFIG SET lua-time-limit 0").text(), "OK");
    one.send(&[b"EVAL", b"while true do end", b"0"]);
    for _ in 0..100 {
        assert_eq!(other.say("SET k v").text(), "OK");
    }
    served.server.stop().unwrap();
}

#[test]
fn a_script_that_was_loaded_stays_however_many_are_called() {
    let served = Served::new();
    let mut client = served.client();
    let loaded = client.ask(&[b"SCRIPT", b"LOAD", b"return 'first'"]).text();
    for from in (0..11_000).step_by(500) {
        let mut bytes = Vec::new();
        for i in from..from + 500 {
            let text = format!("return {i}");
            bytes.extend(crate::client::encoded(&[b"EVAL", text.as_bytes(), b"0"]));
        }
        std::io::Write::write_all(&mut client.socket, &bytes).unwrap();
        for i in from..from + 500 {
            assert_eq!(client.read(), Value::Integer(i));
        }
    }
    let late = client.ask(&[b"SCRIPT", b"LOAD", b"return 'late'"]).text();
    assert_eq!(client.say(&format!("EVALSHA {loaded} 0")).text(), "first");
    assert_eq!(client.say(&format!("EVALSHA {late} 0")).text(), "late");
    // Those that take too much memory are refused, and named.
    let served = Served::with(ServeOptions {
        max_buffers: 1 << 20,
        ..options()
    });
    let mut client = served.client();
    let long = |i: usize| format!("return {i} --{}", "x".repeat(100_000));
    let answers: Vec<String> = (0..4)
        .map(|i| client.ask(&[b"SCRIPT", b"LOAD", long(i).as_bytes()]).text())
        .collect();
    assert_eq!(answers[1].len(), 40);
    assert!(answers[3].starts_with("ERR the scripts"), "{answers:?}");
    assert_eq!(
        client.ask(&[b"EVAL", long(5).as_bytes(), b"0"]),
        Value::Integer(5)
    );
    assert_eq!(client.say("SCRIPT FLUSH").text(), "OK");
    assert_eq!(
        client
            .ask(&[b"SCRIPT", b"LOAD", long(3).as_bytes()])
            .text()
            .len(),
        40
    );
}
