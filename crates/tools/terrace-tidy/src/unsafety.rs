//! Where unsafe code may be, and that it says why it holds.

use crate::tree::SourceFile;
use crate::{Complaints, Tree};

/// The keyword, written so that this file does not contain it.
const KEYWORD: &str = concat!("un", "safe");

/// Files with unsafe code, each with the reason. All other crates forbid it.
const ALLOWED: &[(&str, &str)] = &[
    (
        "crates/bindings/terrace-c/src/raw.rs",
        "what C hands over and gets",
    ),
    (
        "crates/bindings/terrace-c/src/structs.rs",
        "structures of the caller's that may be older",
    ),
    (
        "crates/engine/terrace-pages/src/frames/allocate.rs",
        "a new page takes over its frame's bytes",
    ),
    (
        "crates/engine/terrace-pages/src/frames/page_in.rs",
        "a page is read into a frame that no one else has",
    ),
    (
        "crates/engine/terrace-pages/src/frames/frame.rs",
        "slices of frames under their latches",
    ),
    (
        "crates/engine/terrace-pages/src/frames/guard.rs",
        "a guard's latch is what makes its slice exclusive",
    ),
    (
        "crates/engine/terrace-pages/src/frames/prefetch.rs",
        "a prefetch reads nothing",
    ),
    (
        "crates/engine/terrace-pages/src/frames/region.rs",
        "one mapping for all frames",
    ),
    (
        "crates/engine/terrace-pages/src/frames/release.rs",
        "a page that is given up is copied under its latch",
    ),
    (
        "crates/engine/terrace-pages/src/frames/table.rs",
        "atomic words in a mapping that grows",
    ),
    (
        "crates/engine/terrace-pages/src/frames/view.rs",
        "optimistic reads of bytes that may change",
    ),
    (
        "crates/engine/terrace-pages/src/pager/fault.rs",
        "a page is read into a frame that no one else has",
    ),
    (
        "crates/engine/terrace-pages/src/pager/fetch.rs",
        "pages are read into frames that no one else has",
    ),
    (
        "crates/engine/terrace-base/src/window.rs",
        "copying to a mapped part of a file",
    ),
    (
        "crates/engine/terrace-base/src/lane.rs",
        "pieces of a part of a file that many threads fill at once",
    ),
    (
        "crates/engine/terrace-base/src/together/mod.rs",
        "buffers that the kernel fills while others work",
    ),
    (
        "crates/engine/terrace-base/src/together/queue.rs",
        "who asks for a read keeps its buffers",
    ),
    (
        "crates/engine/terrace-base/src/together/ring.rs",
        "requests that the kernel reads in a mapping",
    ),
    (
        "crates/engine/terrace-base/src/together/tests.rs",
        "reads that a test asks for by itself",
    ),
    (
        "crates/engine/terrace-base/src/together/threads.rs",
        "buffers that other threads fill",
    ),
    (
        "crates/engine/terrace-base/src/process.rs",
        "a mapping that a child process finds empty",
    ),
    (
        "crates/maps/terrace-mem/src/concurrent/cell.rs",
        "epoch-based reclamation",
    ),
    (
        "crates/maps/terrace-pm/src/pm/flush.rs",
        "instructions that write lines of the cache back",
    ),
    (
        "crates/maps/terrace-pm/src/pm/mapped.rs",
        "a file mapped as atomic words",
    ),
    (
        "crates/tools/terrace-cli/src/load/lmdb.rs",
        "a store that maps its file is opened",
    ),
    (
        "crates/tools/terrace-cli/tests/commands/importing.rs",
        "the same store makes a file",
    ),
    (
        "crates/maps/terrace-pm/tests/memory.rs",
        "an allocator that counts",
    ),
    (
        "crates/maps/terrace-mem/src/simd/prefetch.rs",
        "the instruction that asks for a cache line",
    ),
    ("crates/maps/terrace-mem/src/simd/x86.rs", "vector kernels"),
    (
        "crates/maps/terrace-mem/src/slots/values.rs",
        "arrays of values that may be missing",
    ),
    (
        "crates/maps/terrace-place/src/arena/pool.rs",
        "nodes in slots of two memories",
    ),
    (
        "crates/maps/terrace-place/src/block.rs",
        "arrays in pieces of a memory",
    ),
    (
        "crates/maps/terrace-place/tests/maps/key_bytes.rs",
        "an allocator that counts",
    ),
    (
        "crates/maps/terrace-place/src/tree/art/nodes.rs",
        "nodes of a radix tree by their class",
    ),
    (
        "crates/maps/terrace-place/src/tree/masstree/nodes.rs",
        "nodes of layers of B+trees by their class",
    ),
    (
        "crates/maps/terrace-place/src/tree/common.rs",
        "a node moves to the other memory",
    ),
    (
        "crates/maps/terrace-place/src/memory/numa.rs",
        "system calls for memory of a node",
    ),
    (
        "crates/maps/terrace-place/src/memory/region.rs",
        "mappings whose pieces get memory when needed",
    ),
    (
        "crates/maps/terrace-place/src/memory/blocks.rs",
        "system calls for the blocks of a file",
    ),
    (
        "crates/maps/terrace-place/src/memory/shared.rs",
        "an anonymous file in memory",
    ),
    (
        "crates/maps/terrace-place/src/tree/nodes.rs",
        "handles are the owners of their nodes",
    ),
    (
        "crates/maps/terrace-mem/tests/maps/bytes.rs",
        "an allocator that counts",
    ),
    (
        "java/native/src/env.rs",
        "the function table of the JVM, for the binding of Java",
    ),
    (
        "lab/peers/src/stores/f2.rs",
        "the C functions around F2, which is C++",
    ),
    (
        "lab/peers/src/stores/lmdb.rs",
        "a file that is mapped, by LMDB's own functions",
    ),
    (
        "lab/peers/src/stores/rocksdb.rs",
        "the C interface of RocksDB",
    ),
    (
        "lab/terrace-mem-bench/src/alloc.rs",
        "an allocator that counts",
    ),
    (
        "lab/terrace-mem-bench/src/workload.rs",
        "the clock of a thread",
    ),
];

/// Whether the line has the keyword outside of comments and strings.
fn is_unsafe(line: &str) -> bool {
    let unquoted: String = line.split('"').step_by(2).collect();
    let code = unquoted.split("//").next().unwrap_or_default();
    let mut words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.any(|word| word == KEYWORD)
}

/// Prefixes of functions that other languages call by name: no other library has one like it, which is all
/// that there is to be careful of in giving them out.
const EXPORTED: &[&str] = &["fn terrace_", "fn Java_org_terrace_"];

/// Whether a line gives a name to the linker that begins as ours do: the function is the next line.
fn exports_our_name(line: &str, next: Option<&str>) -> bool {
    let is_name = line.trim() == format!("#[{KEYWORD}(no_mangle)]");
    let code = next.unwrap_or_default();
    is_name
        && code.starts_with("pub extern ")
        && EXPORTED.iter().any(|prefix| code.contains(prefix))
}

/// The lines that need a reason.
fn unsafe_lines(file: &SourceFile) -> impl Iterator<Item = usize> {
    let mut lines = file.text.lines().enumerate().peekable();
    std::iter::from_fn(move || {
        loop {
            let (i, line) = lines.next()?;
            let next = lines.peek().map(|(_, next)| *next);
            if is_unsafe(line) && !exports_our_name(line, next) {
                return Some(i);
            }
        }
    })
}

fn has_unsafe(file: &SourceFile) -> bool {
    unsafe_lines(file).next().is_some()
}

/// Every crate without an allowed file forbids unsafe code at its root.
pub fn unsafe_forbidden(tree: &Tree) -> Complaints {
    let forbid = format!("#![forbid({KEYWORD}_code)]");
    let mut complaints = Complaints::new();
    for file in tree.sources() {
        let Some((name, "src/lib.rs" | "src/main.rs")) = file.in_crate() else {
            continue;
        };
        let folder = format!("/{name}/");
        let allowed = ALLOWED.iter().any(|(path, _)| path.contains(&folder));
        if !allowed && !file.text.contains(&forbid) {
            complaints.push(format!("{}: {forbid} is missing", file.path));
        }
    }
    complaints
}

/// No other file has any, and the list names no file that has none.
pub fn unsafe_files(tree: &Tree) -> Complaints {
    let mut complaints = Complaints::new();
    for file in tree
        .files
        .iter()
        .filter(|file| file.is_rust() && has_unsafe(file))
    {
        if !ALLOWED.iter().any(|(path, _)| *path == file.path) {
            complaints.push(format!("{}: {KEYWORD} code is not allowed here", file.path));
        }
    }
    for (path, _) in ALLOWED {
        if !tree.file(path).is_some_and(has_unsafe) {
            complaints.push(format!(
                "{path}: has no {KEYWORD} code any more; take it off the list"
            ));
        }
    }
    complaints
}

/// Every block and impl stands under a `SAFETY:` comment, every function of our own that is to be
/// called with care has a `# Safety` section.
pub fn unsafe_reasons(tree: &Tree) -> Complaints {
    let mut complaints = Complaints::new();
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        let lines: Vec<&str> = file.text.lines().collect();
        for i in unsafe_lines(file) {
            let code = lines[i].trim_start();
            // The contract of a trait's function is the trait's; its impl says why it is kept.
            let of_a_trait = code.starts_with(KEYWORD) && code.contains(" fn ");
            if !of_a_trait && !is_explained(&lines[..i]) {
                complaints.push(format!("{}:{}: no SAFETY comment", file.path, i + 1));
            }
        }
    }
    complaints
}

/// Whether the comment right above, perhaps above the beginning of the same statement, gives the
/// reason.
fn is_explained(above: &[&str]) -> bool {
    for line in above.iter().rev() {
        let line = line.trim();
        if line.starts_with("//") {
            if line.contains("SAFETY:") || line.contains("# Safety") {
                return true;
            }
        } else if line.is_empty()
            || (!line.starts_with('#') && line.ends_with([';', '{', '}', ',']))
        {
            return false;
        }
    }
    false
}
