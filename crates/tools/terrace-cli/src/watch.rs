//! Looking at a database live: `top`, `view`, and the page of `bench` and `demo`.

use anyhow::{Context, Result, bail};
use console::{Key, Term};
use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use terrace_view::Watch;
use terrace_view::http::{Access, Server, serve};
use terrace_view::top::{Look, lines};

use crate::args::{TopArgs, ViewArgs};
use crate::engine::Db;
use crate::other::Reached;
use crate::output::{print, tell};

/// Time between two frames.
const EVERY: Duration = Duration::from_millis(500);
/// How old numbers of records may be: they cost some dozen page reads for each structure.
const COUNTED: Duration = Duration::from_secs(10);
/// Size of a frame that is printed, where there is no terminal.
const PRINTED: (usize, usize) = (100, 40);

fn name(path: &Path) -> String {
    path.file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned()
}

/// The database, and what keeps it open.
fn watch(reached: &mut Reached, path: &Path) -> Watch {
    let watched = match reached {
        Reached::Own(db) => db.watched(),
        Reached::Other(other) => other.watched(path),
    };
    Watch::new(name(path), watched, COUNTED)
}

/// `terrace top`
pub fn top(args: &TopArgs) -> Result<ExitCode> {
    let is_terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    if !args.once && !args.json && !is_terminal {
        bail!("this is no terminal: use --once for one frame, or --json for a program");
    }
    let mut reached = Reached::find_to_read(&args.open, true)?;
    let mut watch = watch(&mut reached, &args.open.db);
    if args.json {
        as_json(&mut watch, args.once)?;
    } else if args.once {
        watch.frame()?;
        std::thread::sleep(EVERY);
        let frame = watch.frame()?;
        let mut look = look();
        look.colour = false;
        look.unicode = false;
        print(&format!("{}\n", lines(&frame, &look).join("\n")))?;
    } else {
        live(&mut watch)?;
    }
    drop(watch);
    if let Reached::Own(db) = reached {
        db.close()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints frames for a program, one a line. The first one has no rates, and is left out.
fn as_json(watch: &mut Watch, once: bool) -> Result<()> {
    watch.frame()?;
    loop {
        std::thread::sleep(EVERY);
        print(&format!("{}\n", serde_json::to_string(&watch.frame()?)?))?;
        if once {
            return Ok(());
        }
    }
}

/// How a frame is to look here.
fn look() -> Look {
    let size = Term::stdout().size_checked();
    let (width, height) = size.map_or(PRINTED, |(rows, columns)| (columns.into(), rows.into()));
    let mut look = Look::plain(width, height);
    look.unicode = is_unicode();
    look.colour = console::colors_enabled();
    look
}

/// Whether more than ASCII can be shown here.
pub fn is_unicode() -> bool {
    let said = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .filter_map(|name| std::env::var(name).ok())
        .find(|value| !value.is_empty())
        .unwrap_or_default()
        .to_lowercase();
    said.contains("utf-8") || said.contains("utf8")
}

/// Draws until the user ends it.
fn live(watch: &mut Watch) -> Result<()> {
    let (sender, keys) = mpsc::channel();
    // While it waits for a key the terminal is in raw mode, so it must not wait any more when we end: it ends
    // itself with the key that ends us.
    let reader = std::thread::Builder::new().spawn(move || {
        loop {
            let key = Term::stdout().read_key_raw();
            let ends = match &key {
                Ok(key) => is_end(key),
                Err(_) => true,
            };
            if sender.send(key).is_err() || ends {
                return;
            }
        }
    })?;
    // Another screen, which leaves what was on this one; no cursor.
    let shown = raw("\x1b[?1049h\x1b[?25l").and_then(|()| draw(watch, &keys));
    let restored = raw("\x1b[?25h\x1b[?1049l");
    if shown.is_ok() {
        let _ = reader.join();
    }
    shown?;
    restored
}

fn is_end(key: &Key) -> bool {
    matches!(
        key,
        Key::Char('q' | 'Q' | '\x03') | Key::Escape | Key::CtrlC
    )
}

fn raw(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

fn draw(watch: &mut Watch, keys: &mpsc::Receiver<std::io::Result<Key>>) -> Result<()> {
    let mut chosen = look();
    chosen.keys = true;
    let mut frame = watch.frame();
    let mut next = Instant::now() + EVERY;
    loop {
        let now = look();
        (chosen.width, chosen.height) = (now.width, now.height);
        let text = match &frame {
            Ok(frame) => lines(frame, &chosen),
            Err(e) => vec![format!("{e}"), "q quit".into()],
        };
        // Line by line from the top, the rest of each cleared, then what is below.
        raw(&format!("\x1b[H{}\x1b[K\x1b[J", text.join("\x1b[K\r\n")))?;
        match keys.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(Ok(key)) if is_end(&key) => return Ok(()),
            Ok(Ok(Key::Char('s'))) => chosen.sort = chosen.sort.next(),
            Ok(Ok(Key::Char('p'))) => chosen.paused = !chosen.paused,
            Ok(Ok(Key::Enter)) => chosen.indexes = !chosen.indexes,
            Ok(Ok(_)) => {}
            Ok(Err(e)) => return Err(e).context("cannot read from the terminal"),
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {
                next = Instant::now() + EVERY;
                if !chosen.paused {
                    frame = watch.frame();
                }
            }
        }
    }
}

/// `terrace view`
pub fn view(args: &ViewArgs) -> Result<ExitCode> {
    let mut access = Access::new();
    access.hosts.clone_from(&args.allow_host);
    access.token = args.token_file.as_deref().map(token).transpose()?;
    let query = match &access.token {
        Some(_) => "?token=…",
        None => "",
    };
    let mut reached = Reached::find_to_read(&args.open, false)?;
    let watch = watch(&mut reached, &args.open.db);
    let server = serve(args.http, access, watch)
        .with_context(|| format!("cannot serve a page at {}", args.http))?;
    print(&format!(
        "The page is at http://{}/{query} until Ctrl-C is pressed.\n",
        server.address()
    ))?;
    loop {
        std::thread::park();
    }
}

/// The first line of a file.
fn token(file: &Path) -> Result<String> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read the token in {}", file.display()))?;
    let token = text.lines().next().unwrap_or_default().trim().to_owned();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.~".contains(c);
    if token.len() < 16 || !token.chars().all(plain) {
        bail!(
            "the first line of {} is no token: give 16 letters, digits and signs of -_.~, or more",
            file.display()
        );
    }
    Ok(token)
}

/// The page of a command that has the database open anyway, for as long as what it returns is kept.
pub fn page(db: &Db, path: &Path, address: SocketAddr) -> Result<Server> {
    let watch = Watch::new(name(path), db.watched(), COUNTED);
    let server = serve(address, Access::new(), watch)
        .with_context(|| format!("cannot serve a page at {address}"))?;
    tell(&format!("The page is at http://{}/.", server.address()));
    Ok(server)
}
