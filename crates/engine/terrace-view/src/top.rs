//! A frame as lines for a terminal.
//!
//! Invariants: no line is wider than the terminal, and there are no more than it has; so drawing never makes
//! it scroll. Nothing of the database is printed as it is: names may hold control characters.

use crate::frame::{Frame, Row};

/// How it is to look.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Look {
    /// Columns of the terminal.
    pub width: usize,
    /// Its lines.
    pub height: usize,
    /// Whether it can show more than ASCII.
    pub unicode: bool,
    /// Whether it shows colours.
    pub colour: bool,
    /// Whether indexes are shown.
    pub indexes: bool,
    /// In which order the structures come.
    pub sort: Sort,
    /// Whether it stands still.
    pub paused: bool,
    /// Whether the last line says which keys do what.
    pub keys: bool,
}

/// In which order structures come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// By name, with indexes below their tables.
    #[default]
    Name,
    /// The most reads first.
    Reads,
    /// The most moves between the tiers first.
    Moves,
    /// The most records first.
    Records,
}

impl Sort {
    /// The next one.
    pub fn next(self) -> Sort {
        match self {
            Sort::Name => Sort::Reads,
            Sort::Reads => Sort::Moves,
            Sort::Moves => Sort::Records,
            Sort::Records => Sort::Name,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Sort::Name => "name",
            Sort::Reads => "reads",
            Sort::Moves => "moves",
            Sort::Records => "records",
        }
    }
}

impl Look {
    /// For a terminal of that size that shows only ASCII, without colours.
    pub fn plain(width: usize, height: usize) -> Look {
        Look {
            width,
            height,
            unicode: false,
            colour: false,
            indexes: true,
            sort: Sort::Name,
            paused: false,
            keys: false,
        }
    }
}

/// Signs of the parts of the memory, and their colours, in the order of the parts.
const SIGNS: [(char, u8); 7] = [
    ('#', 208),
    ('%', 178),
    ('=', 39),
    ('+', 103),
    ('*', 139),
    (':', 71),
    ('.', 240),
];

/// The frame, line by line.
pub fn lines(frame: &Frame, look: &Look) -> Vec<String> {
    let mut lines = head(frame, look);
    let mut foot = foot(frame, look);
    let rows = frame
        .rows
        .iter()
        .filter(|row| look.indexes || !row.is_index);
    let room = look
        .height
        .saturating_sub(lines.len() + foot.len() + rows.count() + 1);
    foot.splice(0..0, calls(frame, look, room));
    let room = look.height.saturating_sub(lines.len() + foot.len()).max(1);
    lines.extend(table(frame, look, room));
    lines.extend(foot);
    lines.truncate(look.height.max(1));
    lines
}

fn head(frame: &Frame, look: &Look) -> Vec<String> {
    let paused = if look.paused { "   paused" } else { "" };
    let per = frame
        .reads_per_operation
        .map_or("-".into(), |reads| format!("{reads:.3}"));
    let mut lines = vec![
        cut(
            &format!(
                "terrace {}   {} operations/s   {per} page reads each{paused}",
                printable(&frame.name),
                short(frame.operations)
            ),
            look.width,
        ),
        String::new(),
        memory_bar(frame, look),
    ];
    let legend: Vec<String> = frame
        .memory
        .iter()
        .zip(SIGNS)
        .map(|(part, (sign, colour))| {
            let sign = painted(&block(sign, look).to_string(), colour, look);
            format!("{sign} {} {}", part.name, size(part.bytes))
        })
        .collect();
    lines.extend(wrapped("         ", &legend, look.width));
    lines.push(gauge_line(frame, look));
    lines.push(cut(
        &format!(
            "disk     data {}, log {}/s   pages/s: {} read, {} written   {} waits/s",
            size(frame.data_bytes),
            size(frame.log.growth as u64),
            short(frame.page_reads),
            short(frame.page_writes),
            short(frame.waits),
        ),
        look.width,
    ));
    if !frame.program.is_empty() {
        let shown = frame.program.iter().map(|one| {
            let each = if one.is_rate { "/s" } else { "" };
            format!("{} {}{each}", printable(&one.word), short(one.value))
        });
        let shown: Vec<String> = shown.collect();
        lines.push(cut(&format!("program  {}", shown.join("   ")), look.width));
    }
    lines.push(String::new());
    lines
}

/// One bar for all of the memory.
fn memory_bar(frame: &Frame, look: &Look) -> String {
    let all: u64 = frame.memory.iter().map(|part| part.bytes).sum();
    let told = format!(" {}", size(frame.memory_limit));
    let width = look.width.saturating_sub(9 + told.len()).max(1);
    let mut bar = String::from("memory   ");
    let (mut sum, mut drawn) = (0u64, 0);
    for (part, (sign, colour)) in frame.memory.iter().zip(SIGNS) {
        sum += part.bytes;
        let end = (u128::from(sum) * width as u128 / u128::from(all.max(1))) as usize;
        let signs: String = std::iter::repeat_n(block(sign, look), end - drawn).collect();
        bar.push_str(&painted(&signs, colour, look));
        drawn = end;
    }
    if look.width < 9 + told.len() + 1 {
        return cut("memory", look.width);
    }
    bar + &told
}

/// In colour one sign is enough.
fn block(sign: char, look: &Look) -> char {
    match (look.colour, look.unicode) {
        (true, true) => '\u{2588}',
        _ => sign,
    }
}

fn painted(text: &str, colour: u8, look: &Look) -> String {
    if look.colour && !text.is_empty() {
        format!("\x1b[38;5;{colour}m{text}\x1b[0m")
    } else {
        text.into()
    }
}

fn gauge_line(frame: &Frame, look: &Look) -> String {
    let c = &frame.checkpoint;
    let state = match (c.running, c.last_seconds) {
        (Some(done), _) => format!(
            "checkpoint {} is {:.0} % done",
            c.completed + 1,
            done * 100.0
        ),
        (None, Some(seconds)) => format!(
            "checkpoint {} took {seconds:.1} s, closed {:.1} ms",
            c.completed,
            c.last_closed_seconds.unwrap_or_default() * 1e3
        ),
        (None, None) => "no checkpoint so far".into(),
    };
    let failed = match c.failed {
        0 => String::new(),
        n => format!(", {n} failed"),
    };
    let share = frame.log.since_checkpoint as f64 / frame.log.limit.max(1) as f64;
    let full = (share * 16.0).round().clamp(0.0, 16.0) as usize;
    let bar = format!("{}{}", "#".repeat(full), "-".repeat(16 - full));
    cut(
        &format!(
            "log      [{bar}] {} of {}   {state}{failed}",
            size(frame.log.since_checkpoint),
            size(frame.log.limit)
        ),
        look.width,
    )
}

fn table(frame: &Frame, look: &Look, room: usize) -> Vec<String> {
    let name = look.width.saturating_sub(67).clamp(8, 40);
    let mut lines = vec![cut(
        &format!(
            "{:<name$} {:<5} {:>8} {:>8} {:>8} {:>6} {:>8} {:>8} {:>8}",
            "structure",
            "kind",
            "records",
            "hot",
            "cold",
            "hit %",
            "reads/s",
            "writes/s",
            "moves/s"
        ),
        look.width,
    )];
    let mut rows: Vec<&Row> = frame
        .rows
        .iter()
        .filter(|row| look.indexes || !row.is_index)
        .collect();
    let by = |figure: fn(&Row) -> f64| move |a: &&Row, b: &&Row| figure(b).total_cmp(&figure(a));
    match look.sort {
        Sort::Name => {}
        Sort::Reads => rows.sort_by(by(|row| row.reads)),
        Sort::Moves => rows.sort_by(by(|row| row.up + row.down)),
        Sort::Records => rows.sort_by(by(|row| row.records.unwrap_or(0) as f64)),
    }
    let shown = match rows.len() + 1 {
        all if all <= room => rows.len(),
        _ => room.saturating_sub(2),
    };
    for row in &rows[..shown] {
        let label = if row.is_index { "  by " } else { "" };
        let label = fit(&format!("{label}{}", printable(&row.name)), name);
        let number = |n: Option<u64>| n.map_or("-".into(), |n| short(n as f64));
        let rate = row
            .hit_rate
            .map_or("-".into(), |rate| format!("{:.1}", rate * 100.0));
        lines.push(cut(
            &format!(
                "{label} {:<5} {:>8} {:>8} {:>8} {rate:>6} {:>8} {:>8} {:>8}",
                row.kind,
                number(row.records),
                number(row.hot),
                number(row.cold),
                short(row.reads),
                short(row.writes),
                short(row.up + row.down),
            ),
            look.width,
        ));
    }
    if shown < rows.len() {
        lines.push(cut(
            &format!("... and {} more", rows.len() - shown),
            look.width,
        ));
    }
    lines
}

/// How long calls took in the last minute: a line for each kind, where there is room below the structures, and otherwise
/// one for all.
fn calls(frame: &Frame, look: &Look, room: usize) -> Vec<String> {
    let mut lines = Vec::new();
    if frame.calls.is_empty() {
        return lines;
    }
    lines.push(String::new());
    if room < frame.calls.len() + 2 {
        let each = frame.calls.iter();
        let each = each.map(|one| format!("{} {}", one.call, time(one.latency.p99_ns)));
        let each: Vec<String> = each.collect();
        lines.push(format!("99 % of calls within   {}", each.join("   ")));
    } else {
        lines.push(format!(
            "{:<15} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "last minute", "median", "99 %", "99.9 %", "longest", "timed"
        ));
        lines.extend(frame.calls.iter().map(|one| {
            let of = &one.latency;
            let [p50, p99, p999, longest] =
                [of.p50_ns, of.p99_ns, of.p999_ns, of.longest_ns].map(time);
            let timed = short(of.timed as f64);
            format!(
                "{:<15} {p50:>9} {p99:>9} {p999:>9} {longest:>9} {timed:>9}",
                one.call
            )
        }));
    }
    lines.iter().map(|line| cut(line, look.width)).collect()
}

fn foot(frame: &Frame, look: &Look) -> Vec<String> {
    let mut lines = Vec::new();
    if look.height >= 16 && !frame.history.is_empty() {
        lines.push(String::new());
        let told = "page reads per operation ";
        let room = look.width.saturating_sub(told.len());
        let spark = sparkline(&frame.history, room, look.unicode);
        lines.push(cut(&format!("{told}{spark}"), look.width));
    }
    if look.keys {
        lines.push(cut(
            &format!(
                "q quit   s sort: {}   enter indexes   p pause",
                look.sort.name()
            ),
            look.width,
        ));
    }
    lines
}

/// The course of a figure, the newest at the right, from nothing to its highest.
fn sparkline(history: &[f64], room: usize, unicode: bool) -> String {
    let steps: Vec<char> = if unicode {
        "▁▂▃▄▅▆▇█".chars().collect()
    } else {
        "_.-=+*%#".chars().collect()
    };
    let shown = &history[history.len().saturating_sub(room)..];
    let most = shown.iter().copied().fold(0.0, f64::max);
    let step = |value: &f64| {
        let share = if most > 0.0 { value / most } else { 0.0 };
        steps[((share * (steps.len() - 1) as f64).round() as usize).min(steps.len() - 1)]
    };
    shown.iter().map(step).collect()
}

/// Texts in as many lines as they need, none of them broken.
fn wrapped(indent: &str, texts: &[String], width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for text in texts {
        let wide = shown_width(indent) + shown_width(&line) + 3 + shown_width(text);
        if !line.is_empty() && wide > width {
            lines.push(format!("{indent}{line}"));
            line.clear();
        }
        if !line.is_empty() {
            line.push_str("   ");
        }
        line.push_str(text);
    }
    lines.push(format!("{indent}{line}"));
    lines.retain(|line| shown_width(line) <= width);
    lines
}

/// Columns that a text takes: colours take none.
fn shown_width(text: &str) -> usize {
    let mut width = 0;
    let mut escaped = false;
    for c in text.chars() {
        match c {
            '\x1b' => escaped = true,
            'm' if escaped => escaped = false,
            _ if escaped => {}
            _ => width += 1,
        }
    }
    width
}

/// A text without colours, no wider than that.
fn cut(text: &str, width: usize) -> String {
    text.chars().take(width).collect()
}

/// The same, filled up.
fn fit(text: &str, width: usize) -> String {
    let text = if text.chars().count() > width {
        let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
        short.push('~');
        short
    } else {
        text.into()
    };
    format!("{text:<width$}")
}

/// A name that may hold anything: every sign that is no plain letter of one column is a dot.
fn printable(name: &str) -> String {
    name.chars()
        .map(|c| {
            if c.is_ascii() && !c.is_ascii_control() {
                c
            } else {
                '.'
            }
        })
        .collect()
}

/// A number in five columns or so.
fn short(number: f64) -> String {
    let units = ["", "k", "M", "G", "T"];
    let mut unit = 0;
    let mut number = number;
    while number >= 9999.5 && unit + 1 < units.len() {
        number /= 1000.0;
        unit += 1;
    }
    match (unit, number) {
        (0, n) if n != 0.0 && n < 10.0 && n.fract() != 0.0 => format!("{n:.1}"),
        (0, n) => format!("{n:.0}"),
        (_, n) if n < 100.0 => format!("{n:.1}{}", units[unit]),
        (_, n) => format!("{n:.0}{}", units[unit]),
    }
}

/// Nanoseconds with a unit.
fn time(nanos: u64) -> String {
    scaled(nanos, 1000.0, &["ns", "us", "ms", "s"])
}

/// Bytes with a unit.
fn size(bytes: u64) -> String {
    scaled(bytes, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"])
}

/// A number with the largest unit that it comes to, each `step` of the one before.
fn scaled(number: u64, step: f64, units: &[&str]) -> String {
    let mut unit = 0;
    let mut number = number as f64;
    while number >= step && unit + 1 < units.len() {
        number /= step;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && number < 100.0);
    format!("{number:.digits$} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Checkpoint, Log, Part};

    /// A frame of everything that there is, in which no figure is like another.
    fn frame() -> Frame {
        let row = |name: &str, is_index, kind, tiers, figures: [Option<u64>; 3]| Row {
            name: name.into(),
            is_index,
            kind,
            tiers,
            records: figures[0],
            hot: figures[1],
            cold: figures[2],
            reads: 14_400.0,
            writes: 7_210.0,
            hit_rate: (tiers == 2).then_some(0.893),
            up: 1_393.0,
            down: 1_201.0,
        };
        let parts = [
            ("hot pages", 8 << 20),
            ("inner pages", 64 << 10),
            ("cold pages", 3 << 20),
            ("page table", 109 << 10),
            ("locks and counters", 162 << 10),
            ("buffers", 288 << 10),
            ("unused", 401 << 10),
        ];
        let parts = parts.map(|(name, bytes)| Part { name, bytes });
        Frame {
            name: "people.db".into(),
            watched_seconds: 12.5,
            memory_limit: 12 << 20,
            memory: parts.into(),
            program: Vec::new(),
            rows: vec![
                row(
                    "people",
                    false,
                    "table",
                    2,
                    [Some(164_000), Some(62_000), Some(163_900)],
                ),
                row(
                    "city",
                    true,
                    "index",
                    1,
                    [Some(164_001), None, Some(164_001)],
                ),
                row(
                    "a name that is too long for it, or nearly",
                    false,
                    "hash",
                    2,
                    [None; 3],
                ),
            ],
            operations: 21_610.0,
            page_reads: 1_342.0,
            page_writes: 238.0,
            reads_per_operation: Some(0.0621),
            history: (0..60).map(|i| 0.3 / f64::from(i + 1)).collect(),
            data_bytes: 68 << 20,
            log: Log {
                since_checkpoint: 10 << 20,
                limit: 16 << 20,
                growth: 1_048_576.0,
            },
            checkpoint: Checkpoint {
                completed: 4,
                failed: 1,
                running: None,
                last_seconds: Some(0.4453),
                last_closed_seconds: Some(4e-6),
                last_pages: Some(540),
            },
            waits: 3.0,
            calls: called(),
            live_bytes: 61 << 20,
            committed: 0.0,
            conflicts: 0.0,
            given_up: 0,
            followers: Vec::new(),
            last_backup: None,
            latest: None,
        }
    }

    fn called() -> Vec<crate::Called> {
        let one = |call, one_in, n: u64| crate::Called {
            call,
            one_in,
            latency: serde_json::from_value(serde_json::json!({
                "timed": 1234 * n, "p50_ns": 850 * n, "p99_ns": 9_400 * n, "p999_ns": 73_000 * n,
                "longest_ns": 1_850_000 * n,
            }))
            .unwrap(),
        };
        vec![one("get", 64, 1), one("put", 64, 3), one("batch", 1, 900)]
    }

    #[test]
    fn a_frame_is_the_one_of_the_file() {
        for (width, height, file) in [(80, 24, "top-80x24.txt"), (200, 50, "top-200x50.txt")] {
            let path = format!("{}/tests/{file}", env!("CARGO_MANIFEST_DIR"));
            let mut look = Look::plain(width, height);
            look.keys = true;
            let drawn = lines(&frame(), &look).join("\n") + "\n";
            if std::env::var_os("TERRACE_WRITE_GOLDEN").is_some() {
                std::fs::write(&path, &drawn).unwrap();
            }
            let golden = std::fs::read_to_string(&path).unwrap();
            assert_eq!(
                drawn, golden,
                "TERRACE_WRITE_GOLDEN=1 cargo test -p terrace-view writes {file}"
            );
        }
    }

    #[test]
    fn numbers_are_short() {
        for (number, told) in [
            (0.0, "0"),
            (0.25, "0.2"),
            (7.0, "7"),
            (9999.0, "9999"),
            (10_000.0, "10.0k"),
            (123_456.0, "123k"),
            (1e9, "1000M"),
            (1e18, "1000000T"),
        ] {
            assert_eq!(short(number), told);
        }
        let times = [0, 999, 1000, 12_340, 456_000, 7_000_000_000].map(time);
        assert_eq!(
            times,
            ["0 ns", "999 ns", "1.0 us", "12.3 us", "456 us", "7.0 s"]
        );
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(64 << 20), "64.0 MiB");
    }

    #[test]
    fn sparks_end_at_the_right_and_reach_the_top() {
        assert_eq!(sparkline(&[0.0, 1.0], 9, false), "_#");
        assert_eq!(sparkline(&[5.0, 0.0, 0.0], 2, true), "▁▁");
        assert_eq!(sparkline(&[], 2, true), "");
    }

    #[test]
    fn colours_take_no_columns() {
        assert_eq!(shown_width("\x1b[38;5;208mab\x1b[0mc"), 3);
    }
}
