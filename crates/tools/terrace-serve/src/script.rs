//! Scripts in Lua, which know the keys only by the commands that they call.
//!
//! Invariants: a script reaches no file and no clock, and leaves no globals behind; it ends after a while, and takes
//! bounded memory. What its commands have done is the caller's, who also takes it back if it was ended.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use mlua::{
    Function, HookTriggers, Lua, LuaOptions, MultiValue, StdLib, Table, Value, Variadic, VmState,
};
use sha1::{Digest, Sha1};

use crate::json;
use crate::proto::VERSION;
use crate::proto::reply::Reply;

/// How long the text of a library may run, which calls no commands.
const LONGEST: Duration = Duration::from_secs(5);
/// Instructions between two looks at the clock.
const LOOK: u32 = 100_000;
/// Memory of all scripts of a thread.
const MEMORY: usize = 64 << 20;
/// How deep tables may lie in each other.
const DEEPEST: usize = 64;

thread_local!(static LUA: RefCell<Option<Lua>> = const { RefCell::new(None) });

/// The name of a script: the SHA-1 of its text, in hexadecimal.
pub fn name(source: &[u8]) -> String {
    hex(&Sha1::digest(source))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// What a binary chunk begins with. Lua believes it blindly, so none is loaded.
const BINARY: u8 = 0x1B;

/// The version as three bytes.
fn version_number() -> i64 {
    let parts = VERSION.split('.').map(|part| part.parse().unwrap_or(0));
    parts.fold(0, |number, part: i64| number << 8 | part)
}

/// What every script finds.
const PRELUDE: &str = r"
local raw, redis, type, error = ...
redis.call = function(...)
  local answer = raw(...)
  if type(answer) == 'table' and answer.err then error(answer, 0) end
  return answer
end
redis.pcall = raw
local wrong = {err = 'ERR wrong number or type of arguments'}
redis.error_reply = function(text)
  if type(text) ~= 'string' then return wrong end
  local code, rest = text:match('^%-?([^ ]*) (.*)$')
  if not code or text:sub(1, 1) ~= '-' and code == '' then
    code, rest = 'ERR', text:match('^%-?(.*)$')
  end
  local from, to = rest:match('^[\r\n]*()'), #rest
  while to >= from and (rest:byte(to) == 10 or rest:byte(to) == 13) do to = to - 1 end
  return {err = code .. ' ' .. rest:sub(from, to)}
end
redis.status_reply = function(text)
  if type(text) ~= 'string' then return wrong end
  return {ok = text}
end
redis.log = function() end
redis.replicate_commands = function() return true end
redis.set_repl = function() end
redis.setresp = function(version)
  if version ~= 2 and version ~= 3 then error({err = 'ERR RESP version must be 2 or 3.'}, 0) end
  if version == 3 then error({err = 'ERR scripts hear answers in RESP version 2 only'}, 0) end
end
redis.acl_check_cmd = function(name)
  local known = raw('COMMAND', 'INFO', name)
  if known.err or not known[1] then
    error({err = 'ERR Invalid command passed to redis.acl_check_cmd()'}, 0)
  end
  return true
end
redis.breakpoint = function() return false end
";

/// Keeps scripts from loading what is no text, and from leaving anything behind: what they find is read through
/// empty tables that nothing can be written to. It answers the tables behind two of them.
const LOCKED: &str = r"
local globals = _G
local raw, first, kind, concat = loadstring, string.byte, type, table.concat
local error, tostring, rawset, insert, pairs, setmetatable = error, tostring, rawset, table.insert, pairs, setmetatable
local function text_alone(text, name)
  if kind(text) ~= 'string' or first(text) == 27 then return nil, 'only text can be loaded' end
  return raw(text, name)
end
loadstring = text_alone
load = function(next, name)
  local parts, part = {}, next()
  while kind(part) == 'string' and part ~= '' do
    parts[#parts + 1] = part
    part = next()
  end
  return text_alone(concat(parts), name)
end
local locked = {}
local function refuse() error('Attempt to modify a readonly table', 2) end
local function lock(front, behind)
  locked[front] = true
  return setmetatable(front, {__metatable = false, __newindex = refuse, __index = behind})
end
globals.rawset = function(table, name, value)
  if locked[table] then refuse() end
  return rawset(table, name, value)
end
table.insert = function(table, ...)
  if locked[table] then refuse() end
  return insert(table, ...)
end
getmetatable('').__metatable = false
local behind = {}
for name, value in pairs(globals) do
  if kind(value) == 'table' and value ~= globals then value = lock({}, value) end
  behind[name] = value
end
for name in pairs(behind) do globals[name] = nil end
setmetatable(behind, {
  __index = function(_, name)
    error('Script attempted to access nonexistent global variable \'' .. tostring(name) .. '\'', 2)
  end,
})
lock(globals, behind)
return behind
";

/// The names in the registry: what scripts find behind their empty table of globals, and `redis` behind its own.
const GLOBALS: &str = "terrace.globals";
const REDIS: &str = "terrace.redis";

/// What runs a command for a script.
pub type Call<'c> = dyn FnMut(&[Vec<u8>]) -> Option<Vec<u8>> + 'c;

/// An engine for scripts.
pub fn make() -> mlua::Result<Lua> {
    let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
    let lua = Lua::new_with(libraries, LuaOptions::default())?;
    lua.set_memory_limit(MEMORY)?;
    let globals = lua.globals();
    for gone in [
        "dofile",
        "loadfile",
        "print",
        "collectgarbage",
        "require",
        "module",
        "package",
        "setfenv",
        "getfenv",
        "newproxy",
    ] {
        globals.raw_set(gone, Value::Nil)?;
    }
    let redis = lua.create_table()?;
    let sha1 = |_: &Lua, text: mlua::LuaString| Ok(name(&text.as_bytes()));
    redis.set("sha1hex", lua.create_function(sha1)?)?;
    for (level, number) in [
        ("LOG_DEBUG", 0),
        ("LOG_VERBOSE", 1),
        ("LOG_NOTICE", 2),
        ("LOG_WARNING", 3),
        ("REPL_NONE", 0),
        ("REPL_AOF", 1),
        ("REPL_SLAVE", 2),
        ("REPL_REPLICA", 2),
        ("REPL_ALL", 3),
    ] {
        redis.set(level, number)?;
    }
    redis.set("REDIS_VERSION", VERSION)?;
    redis.set("REDIS_VERSION_NUM", version_number())?;
    globals.raw_set("redis", &redis)?;
    globals.raw_set("server", &redis)?;
    lua.set_named_registry_value(REDIS, &redis)?;
    let cjson = lua.create_table()?;
    cjson.set("null", Value::NULL)?;
    cjson.set(
        "encode",
        lua.create_function(|lua, value: Value| lua.create_string(json::encode(&value)?))?,
    )?;
    cjson.set(
        "decode",
        lua.create_function(|lua, text: mlua::LuaString| json::decode(lua, &text.as_bytes()))?,
    )?;
    globals.raw_set("cjson", cjson)?;
    let behind: Table = lua.load(LOCKED).call(())?;
    lua.set_named_registry_value(GLOBALS, behind)?;
    Ok(lua)
}

/// An answer of a command, in the second version of the protocol, as Lua has it, and how long it is.
fn heard(lua: &Lua, bytes: &[u8]) -> mlua::Result<(Value, usize)> {
    let broken = || mlua::Error::runtime("an answer that is none");
    let end = bytes.iter().position(|b| *b == b'\n').ok_or_else(broken)?;
    let line = bytes.get(1..end.saturating_sub(1)).ok_or_else(broken)?;
    let after = end + 1;
    let number = || crate::text::parse_i64(line).ok_or_else(broken);
    Ok(match bytes[0] {
        b':' => (Value::Number(number()? as f64), after),
        b'$' => match usize::try_from(number()?) {
            Ok(length) => {
                let text = bytes.get(after..after + length).ok_or_else(broken)?;
                (Value::String(lua.create_string(text)?), after + length + 2)
            }
            Err(_) => (Value::Boolean(false), after),
        },
        b'*' => match usize::try_from(number()?) {
            Ok(length) => {
                let table = lua.create_table()?;
                let mut at = after;
                for i in 0..length {
                    let (item, taken) = heard(lua, bytes.get(at..).ok_or_else(broken)?)?;
                    table.raw_set(i + 1, item)?;
                    at += taken;
                }
                (Value::Table(table), at)
            }
            Err(_) => (Value::Boolean(false), after),
        },
        kind => {
            let table = lua.create_table()?;
            let field = if kind == b'-' { "err" } else { "ok" };
            table.raw_set(field, lua.create_string(line)?)?;
            (Value::Table(table), after)
        }
    })
}

/// Writes what a script has answered.
fn answer(value: &Value, out: &mut Reply, depth: usize) -> mlua::Result<()> {
    // A table that holds another one twice is long before it is deep.
    if depth > DEEPEST || out.bytes.len() > MEMORY {
        return Err(mlua::Error::runtime("reached lua stack limit"));
    }
    match value {
        Value::Integer(number) => out.number(*number),
        Value::Number(number) => out.number(*number as i64),
        Value::String(text) => out.bulk(text.as_bytes()),
        Value::Boolean(true) => out.number(1),
        Value::Table(table) => {
            if let Value::String(text) = table.raw_get("err")? {
                out.error(&text.to_string_lossy());
            } else if let Value::String(text) = table.raw_get("ok")? {
                out.simple(&text.to_string_lossy());
            } else if !typed(table, out, depth)? {
                let mut items = Vec::new();
                for i in 1.. {
                    match table.raw_get(i)? {
                        Value::Nil => break,
                        item => items.push(item),
                    }
                }
                out.array(items.len());
                for item in &items {
                    answer(item, out, depth + 1)?;
                }
            }
        }
        _ => out.null(),
    }
    Ok(())
}

/// Writes what a script has said the type of; whether it has.
fn typed(table: &Table, out: &mut Reply, depth: usize) -> mlua::Result<bool> {
    match table.raw_get("double")? {
        Value::Number(number) => {
            out.double(number);
            return Ok(true);
        }
        Value::Integer(number) => {
            out.double(number as f64);
            return Ok(true);
        }
        _ => {}
    }
    for (name, values) in [("map", true), ("set", false)] {
        let Value::Table(all) = table.raw_get(name)? else {
            continue;
        };
        let pairs: Vec<(Value, Value)> = all.pairs().collect::<mlua::Result<_>>()?;
        match values {
            true => out.map(pairs.len()),
            false => out.set(pairs.len()),
        }
        for (key, value) in &pairs {
            answer(key, out, depth + 1)?;
            if values {
                answer(value, out, depth + 1)?;
            }
        }
        return Ok(true);
    }
    if let Value::String(text) = table.raw_get("big_number")? {
        out.big_number(&text.to_string_lossy());
        return Ok(true);
    }
    if let Value::Table(verbatim) = table.raw_get("verbatim_string")?
        && let Value::String(text) = verbatim.raw_get("string")?
        && let Value::String(format) = verbatim.raw_get("format")?
    {
        out.verbatim_as(&format.as_bytes(), &text.as_bytes());
        return Ok(true);
    }
    Ok(false)
}

fn said(argument: &Value) -> Option<Vec<u8>> {
    match argument {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Integer(number) => Some(number.to_string().into_bytes()),
        Value::Number(number) => Some(crate::text::format_f64(*number).into_bytes()),
        _ => None,
    }
}

/// Runs a script and writes its answer. `call` runs a command, whose answer it gives in the second version of the
/// protocol, or nothing if the script is to end, and run again elsewhere.
///
/// # Errors
/// What is wrong with the script, as it is sent.
pub fn run(
    source: &[u8],
    keys: &[&[u8]],
    arguments: &[&[u8]],
    out: &mut Reply,
    limit: &Limit,
    call: &mut Call,
) -> Result<(), String> {
    with_lua(|lua| run_script(lua, source, keys, arguments, out, limit, call))
}

/// Does something with the engine of this thread.
fn with_lua<T>(f: impl FnOnce(&Lua) -> Result<T, String>) -> Result<T, String> {
    LUA.with(|kept| {
        let mut kept = kept.borrow_mut();
        let lua = match kept.take() {
            Some(lua) => lua,
            None => make().map_err(|e| format!("ERR {e}"))?,
        };
        let done = f(&lua);
        if is_small(&lua) {
            *kept = Some(lua);
        }
        done
    })
}

/// Whether an engine is kept: one that has run out of memory is made anew.
pub fn is_small(lua: &Lua) -> bool {
    lua.used_memory() < MEMORY / 2
}

/// The table `redis`, as it can be written to.
pub fn redis_of(lua: &Lua) -> mlua::Result<Table> {
    lua.named_registry_value(REDIS)
}

/// How long something may run.
#[derive(Clone)]
pub struct Limit {
    by: Option<Instant>,
    /// Whether the server stops, which ends it.
    stops: Rc<dyn Fn() -> bool>,
    over: Rc<Cell<bool>>,
}

impl Limit {
    /// For so long from now on, or until it ends by itself.
    pub fn new(longest: Option<Duration>, stops: Rc<dyn Fn() -> bool>) -> Limit {
        Limit {
            by: longest.and_then(|longest| Instant::now().checked_add(longest)),
            stops,
            over: Rc::default(),
        }
    }

    /// Whether it was ended.
    pub fn was_reached(&self) -> bool {
        self.over.get()
    }

    fn is_over(&self) -> bool {
        // A stop waits for no script: one that is ended leaves nothing.
        let over = self.by.is_some_and(|by| Instant::now() > by) || (self.stops)();
        self.over.set(self.over.get() || over);
        over
    }
}

fn too_long() -> mlua::Error {
    mlua::Error::runtime("the script runs for too long and was ended; nothing of it stays")
}

/// Runs something that ends with an error after a while.
fn within_time<T>(
    lua: &Lua,
    limit: &Limit,
    run: impl FnOnce() -> mlua::Result<T>,
) -> mlua::Result<T> {
    let limit = limit.clone();
    // One that has caught this once gets it again at each instruction of its own, until nothing catches it.
    let look = move |lua: &Lua, _: &mlua::debug::Debug| {
        if !limit.is_over() {
            return Ok(VmState::Continue);
        }
        let each = HookTriggers::new().every_nth_instruction(1);
        lua.set_global_hook(each, |_, _| Err(too_long()))?;
        Err(too_long())
    };
    let triggers = HookTriggers::new().every_nth_instruction(LOOK);
    // Of all coroutines, too.
    let ran = lua.set_global_hook(triggers, look).and_then(|()| run());
    lua.remove_global_hook();
    ran
}

/// Runs the text of a library.
pub fn run_library<T>(lua: &Lua, run: impl FnOnce() -> mlua::Result<T>) -> mlua::Result<T> {
    within_time(lua, &Limit::new(Some(LONGEST), Rc::new(|| false)), run)
}

/// Flags that scripts and functions may have.
pub const FLAGS: [&str; 5] = [
    "no-writes",
    "allow-oom",
    "allow-stale",
    "no-cluster",
    "allow-cross-slot-keys",
];

/// What a script promises in its first line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptFlags {
    /// Whether it has such a line.
    pub any: bool,
    /// That it changes nothing.
    pub only_reads: bool,
    /// That it may run while nothing can be added.
    pub allows_full: bool,
}

/// What the first line of a script promises, and the text behind it.
///
/// # Errors
/// A line that is none.
pub fn promised(source: &[u8]) -> Result<(ScriptFlags, &[u8]), String> {
    let mut promises = ScriptFlags::default();
    if !source.starts_with(b"#!") {
        return Ok((promises, source));
    }
    let end = source.iter().position(|b| *b == b'\n');
    let end = end.ok_or("ERR Invalid script shebang")?;
    let (first, body) = source.split_at(end);
    let first = String::from_utf8_lossy(first);
    let mut words = first.split_ascii_whitespace();
    let engine = words.next().unwrap_or_default();
    if engine != "#!lua" {
        return Err(format!("ERR Unexpected engine in script shebang: {engine}"));
    }
    promises.any = true;
    for word in words {
        let Some(flags) = word.strip_prefix("flags=") else {
            return Err(format!("ERR Unknown lua shebang option: {word}"));
        };
        for flag in flags.split(',').filter(|flag| !flag.is_empty()) {
            match flag {
                "no-writes" => promises.only_reads = true,
                "allow-oom" => promises.allows_full = true,
                _ if FLAGS.contains(&flag) => {}
                _ => return Err(format!("ERR Unexpected flag in script shebang: {flag}")),
            }
        }
    }
    Ok((promises, body))
}

/// Whether a text is a script.
///
/// # Errors
/// Why not, as it is sent.
pub fn check(source: &[u8]) -> Result<(), String> {
    let (_, body) = promised(source)?;
    with_lua(|lua| compiled(lua, body).map(|_| ()))
}

fn compiled(lua: &Lua, body: &[u8]) -> Result<Function, String> {
    if body.first() == Some(&BINARY) {
        return Err("ERR Error compiling script (new function): it is no text".to_owned());
    }
    let compiled = lua.load(body).set_name("@user_script").into_function();
    compiled.map_err(|e| {
        let why = e.to_string();
        let why = why.trim_start_matches("syntax error: ");
        format!("ERR Error compiling script (new function): {why}")
    })
}

fn run_script(
    lua: &Lua,
    source: &[u8],
    keys: &[&[u8]],
    arguments: &[&[u8]],
    out: &mut Reply,
    limit: &Limit,
    call: &mut Call,
) -> Result<(), String> {
    let script = compiled(lua, promised(source)?.1)?;
    let ended = with_calls(lua, limit, call, || {
        let globals: Table = lua.named_registry_value(GLOBALS)?;
        globals.raw_set("KEYS", texts(lua, keys)?)?;
        globals.raw_set("ARGV", texts(lua, arguments)?)?;
        let pcall: Function = globals.raw_get("pcall")?;
        pcall.call::<MultiValue>(script)
    });
    said_in_the_end(ended, out)
}

/// Runs a function, which gets keys and arguments as its own.
///
/// # Errors
/// What is wrong with it, as it is sent.
pub fn run_function(
    lua: &Lua,
    function: &Function,
    keys: &[&[u8]],
    arguments: &[&[u8]],
    out: &mut Reply,
    limit: &Limit,
    call: &mut Call,
) -> Result<(), String> {
    let ended = with_calls(lua, limit, call, || {
        let globals: Table = lua.named_registry_value(GLOBALS)?;
        let pcall: Function = globals.raw_get("pcall")?;
        pcall.call::<MultiValue>((function, texts(lua, keys)?, texts(lua, arguments)?))
    });
    said_in_the_end(ended, out)
}

fn texts(lua: &Lua, all: &[&[u8]]) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for (i, one) in all.iter().enumerate() {
        table.raw_set(i + 1, lua.create_string(one)?)?;
    }
    Ok(table)
}

/// Runs something that calls commands.
fn with_calls(
    lua: &Lua,
    limit: &Limit,
    call: &mut Call,
    run: impl FnOnce() -> mlua::Result<MultiValue>,
) -> mlua::Result<MultiValue> {
    within_time(lua, limit, || {
        lua.scope(|scope| {
            let raw = scope.create_function_mut(|lua, arguments: Variadic<Value>| {
                let words: Option<Vec<Vec<u8>>> = arguments.iter().map(said).collect();
                let words = words.filter(|words| !words.is_empty());
                let Some(words) = words else {
                    let text = "ERR Lua redis lib command arguments must be strings or integers";
                    let table = lua.create_table()?;
                    table.raw_set("err", text)?;
                    return Ok(Value::Table(table));
                };
                match call(&words) {
                    Some(bytes) => heard(lua, &bytes).map(|(value, _)| value),
                    None => Err(mlua::Error::runtime("the script runs again")),
                }
            })?;
            let globals: Table = lua.named_registry_value(GLOBALS)?;
            let part = |name: &str| globals.raw_get::<Function>(name);
            lua.load(PRELUDE)
                .call::<()>((raw, redis_of(lua)?, part("type")?, part("error")?))?;
            run()
        })
    })
}

/// Writes what the script has come to.
fn said_in_the_end(ended: mlua::Result<MultiValue>, out: &mut Reply) -> Result<(), String> {
    let mut ended = ended.map_err(|e| format!("ERR {e}"))?.into_iter();
    let well = ended.next() == Some(Value::Boolean(true));
    let value = ended.next().unwrap_or(Value::Nil);
    if well {
        return answer(&value, out, 0).map_err(|e| format!("ERR {e}"));
    }
    Err(match &value {
        Value::Table(table) => match table.raw_get("err") {
            Ok(Value::String(text)) => text.to_string_lossy(),
            _ => "ERR the script failed".to_owned(),
        },
        Value::String(text) => format!("ERR {}", text.to_string_lossy()),
        Value::Error(error) => format!("ERR {error}"),
        _ => "ERR the script failed".to_owned(),
    })
}
