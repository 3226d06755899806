//! Functions in Lua that clients call by name, and the libraries that they come in.
//!
//! Invariants: a library is known once its record is written; each thread has an engine of its own, which is made
//! anew when libraries have changed, so what a library keeps between calls is a thread's.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use mlua::{Function, Lua, Table, Value};

use crate::proto::reply::Reply;
use crate::script::{self, Call, FLAGS, Limit};

/// A function, as its library declares it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    /// Its name.
    pub name: String,
    /// What it says of itself.
    pub description: Option<String>,
    /// What it promises.
    pub flags: Vec<String>,
}

impl Declared {
    /// Whether it may run while nothing can be added.
    pub fn allows_full(&self) -> bool {
        self.flags.iter().any(|flag| flag == "allow-oom")
    }

    /// Whether it promises to change nothing.
    pub fn only_reads(&self) -> bool {
        self.flags.iter().any(|flag| flag == "no-writes")
    }
}

/// A library.
#[derive(Debug)]
pub struct Library {
    /// Its name.
    pub name: String,
    /// Its text.
    pub source: Vec<u8>,
    /// Its functions.
    pub functions: Vec<Declared>,
}

/// All libraries.
#[derive(Clone, Debug, Default)]
pub struct Libraries {
    /// Raised with each change.
    pub generation: u64,
    /// By their names.
    pub all: BTreeMap<String, Arc<Library>>,
}

impl Libraries {
    /// A function.
    pub fn find(&self, name: &str) -> Option<&Declared> {
        let mut all = self.all.values().flat_map(|library| &library.functions);
        all.find(|function| function.name.eq_ignore_ascii_case(name))
    }

    /// Adds a library.
    ///
    /// # Errors
    /// There is one with its name, unless it is replaced, or one with a function of the same name.
    pub fn add(&mut self, library: Library, replaces: bool) -> Result<(), String> {
        if !replaces && self.all.contains_key(&library.name) {
            return Err(format!("ERR Library '{}' already exists", library.name));
        }
        for other in self.all.values().filter(|other| other.name != library.name) {
            let is_taken = |f: &&Declared| {
                let mut names = library.functions.iter();
                names.any(|own| own.name.eq_ignore_ascii_case(&f.name))
            };
            if let Some(taken) = other.functions.iter().find(is_taken) {
                return Err(format!("ERR Function {} already exists", taken.name));
            }
        }
        self.all.insert(library.name.clone(), Arc::new(library));
        self.generation += 1;
        Ok(())
    }
}

fn is_name(name: &str) -> bool {
    let good = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    !name.is_empty() && name.bytes().all(good)
}

const BAD_NAME: &str =
    "can only contain letters, numbers, or underscores(_) and must be at least one character long";

/// The name that the first line of a library says, and the text behind it.
fn named(source: &[u8]) -> Result<(String, &[u8]), String> {
    let Some(rest) = source.strip_prefix(b"#!") else {
        return Err("ERR Missing library metadata".to_owned());
    };
    let end = rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
    let (first, body) = rest.split_at(end);
    let first = String::from_utf8_lossy(first);
    let mut words = first.split_whitespace();
    let engine = words.next().unwrap_or_default();
    if !engine.eq_ignore_ascii_case("lua") {
        return Err(format!("ERR Engine '{engine}' not found"));
    }
    let mut name = None;
    for word in words {
        match word.strip_prefix("name=") {
            Some(_) if name.is_some() => {
                return Err(
                    "ERR Invalid metadata value, name argument was given multiple times".to_owned(),
                );
            }
            Some(said) => name = Some(said.trim_matches(['"', '\'']).to_owned()),
            None => return Err(format!("ERR Invalid metadata value given: {word}")),
        }
    }
    let name = name.ok_or("ERR Library name was not given")?;
    match is_name(&name) {
        true => Ok((name, body)),
        false => Err(format!("ERR Library names {BAD_NAME}")),
    }
}

fn declared(arguments: (Value, Option<Function>)) -> Result<(Declared, Function), String> {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.to_string_lossy()),
        _ => None,
    };
    let (declared, function) = match arguments {
        (Value::Table(table), None) => {
            let mut declared = Declared::default();
            let mut function = None;
            for pair in table.pairs::<Value, Value>() {
                let (key, value) = pair.map_err(|e| e.to_string())?;
                match (text(&key).as_deref(), &value) {
                    (Some("function_name"), Value::String(name)) => {
                        declared.name = name.to_string_lossy();
                    }
                    (Some("description"), Value::String(said)) => {
                        declared.description = Some(said.to_string_lossy());
                    }
                    (Some("callback"), Value::Function(callback)) => {
                        function = Some(callback.clone());
                    }
                    (Some("flags"), Value::Table(flags)) => {
                        for flag in flags.sequence_values::<Value>() {
                            let flag = flag.ok().as_ref().and_then(text).unwrap_or_default();
                            if !FLAGS.contains(&flag.as_str()) {
                                return Err("unknown flag given".to_owned());
                            }
                            declared.flags.push(flag);
                        }
                    }
                    _ => return Err("unknown argument given to redis.register_function".to_owned()),
                }
            }
            (declared, function)
        }
        (name, function) => {
            let name =
                text(&name).ok_or("first argument to redis.register_function must be a string")?;
            let declared = Declared {
                name,
                ..Declared::default()
            };
            (declared, function)
        }
    };
    let function = function.ok_or("redis.register_function must get a callback")?;
    match is_name(&declared.name) {
        true => Ok((declared, function)),
        false => Err(format!("Function names {BAD_NAME}")),
    }
}

/// Functions that a library has registered.
type Registered = Vec<(Declared, Function)>;

/// Runs the text of a library, which registers its functions.
fn register(lua: &Lua, body: &[u8]) -> Result<Registered, String> {
    let all: Rc<RefCell<Registered>> = Rc::default();
    let told = all.clone();
    let register = move |_: &Lua, arguments: (Value, Option<Function>)| {
        let (declared, function) = declared(arguments).map_err(mlua::Error::runtime)?;
        let mut all = told.borrow_mut();
        if all.iter().any(|(other, _)| other.name == declared.name) {
            return Err(mlua::Error::runtime(
                "Function already exists in the library",
            ));
        }
        all.push((declared, function));
        Ok(())
    };
    let ran = script::redis_of(lua).and_then(|redis: Table| {
        redis.raw_set("register_function", lua.create_function(register)?)?;
        let ran = script::run_library(lua, || {
            let chunk = lua.load(body).set_name("@user_function");
            chunk.set_mode(mlua::chunk::ChunkMode::Text).exec()
        });
        redis.raw_set("register_function", Value::Nil)?;
        ran
    });
    ran.map_err(|e| format!("ERR Error compiling function: {e}"))?;
    let all = all.take();
    match all.is_empty() {
        true => Err("ERR No functions registered".to_owned()),
        false => Ok(all),
    }
}

/// The library of a text.
///
/// # Errors
/// What is wrong with it, as it is sent.
pub fn library(source: &[u8]) -> Result<Library, String> {
    let (name, body) = named(source)?;
    let lua = script::make().map_err(|e| format!("ERR {e}"))?;
    let functions = register(&lua, body)?;
    Ok(Library {
        name,
        source: source.to_vec(),
        functions: functions
            .into_iter()
            .map(|(declared, _)| declared)
            .collect(),
    })
}

struct Engine {
    generation: u64,
    lua: Lua,
    functions: HashMap<String, Function>,
}

thread_local!(static ENGINE: RefCell<Option<Engine>> = const { RefCell::new(None) });

fn engine(libraries: &Libraries) -> Result<Engine, String> {
    let lua = script::make().map_err(|e| format!("ERR {e}"))?;
    let mut functions = HashMap::new();
    for library in libraries.all.values() {
        let (_, body) = named(&library.source)?;
        for (declared, function) in register(&lua, body)? {
            functions.insert(declared.name.to_ascii_lowercase(), function);
        }
    }
    Ok(Engine {
        generation: libraries.generation,
        lua,
        functions,
    })
}

/// Calls a function and writes its answer, as [`script::run`] does it with a script.
///
/// # Errors
/// What is wrong, as it is sent.
pub fn run(
    libraries: &Libraries,
    name: &str,
    keys: &[&[u8]],
    arguments: &[&[u8]],
    out: &mut Reply,
    limit: &Limit,
    call: &mut Call,
) -> Result<(), String> {
    ENGINE.with(|kept| {
        let mut kept = kept.borrow_mut();
        let engine = match kept.take() {
            Some(engine) if engine.generation == libraries.generation => engine,
            _ => engine(libraries)?,
        };
        let function = engine.functions.get(&name.to_ascii_lowercase());
        let function = function.ok_or("ERR Function not found")?;
        let ran = script::run_function(&engine.lua, function, keys, arguments, out, limit, call);
        if script::is_small(&engine.lua) {
            *kept = Some(engine);
        }
        ran
    })
}
