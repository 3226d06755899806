//! The nodes of a machine, as its files tell.

use super::files::{Files, System};

const NODES: &str = "/sys/devices/system/node";
const TIERS: &str = "/sys/devices/virtual/memory_tiering";
const STATUS: &str = "/proc/self/status";
const GROUPS: &str = "/proc/self/cgroup";

/// A node with memory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Node {
    /// Its number.
    pub number: u32,
    /// Processors that belong to it.
    pub cpus: Vec<u32>,
    /// Bytes of memory.
    pub bytes: u64,
    /// Bytes that are free, or can be made so.
    pub available: u64,
    /// Distance from our node; 10 is the node itself.
    pub distance: Option<u32>,
    /// Nanoseconds of a read, as the firmware tells (HMAT).
    pub latency: Option<u32>,
    /// MiB a second of reads, as the firmware tells.
    pub bandwidth: Option<u32>,
    /// The number of its memory tier; a higher one is slower.
    pub tier: Option<u32>,
    /// Whether this process may use it.
    pub allowed: bool,
}

/// What there is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Machine {
    /// Nodes with memory, by number; none if the system does not tell.
    pub nodes: Vec<Node>,
    /// The node on whose processors we run.
    pub ours: u32,
    /// Processors that we may run on.
    pub cpus: Vec<u32>,
    /// Bytes that the control groups of this process still allow, of all nodes together; none if they
    /// set no limit.
    pub allowed_bytes: Option<u64>,
    /// Whether the kernel moves pages between tiers by itself.
    pub kernel_moves: Vec<String>,
}

impl Machine {
    /// The machine that this runs on.
    pub fn here() -> Machine {
        Machine::read(&System)
    }

    /// The machine of these files.
    pub fn read(files: &dyn Files) -> Machine {
        let status = files.read(STATUS).unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.map(|list| parse_list(list.trim()))
        };
        let cpus = field("Cpus_allowed_list:").unwrap_or_default();
        let allowed = field("Mems_allowed_list:");
        let numbers: Vec<u32> = files
            .names(NODES)
            .iter()
            .filter_map(|name| name.strip_prefix("node")?.parse().ok())
            .collect();
        let cpus_of = |number: u32| {
            let list = files.read(&format!("{NODES}/node{number}/cpulist"));
            list.map(|list| parse_list(list.trim())).unwrap_or_default()
        };
        // Our node is the first that has a processor of ours.
        let is_ours = |number: &&u32| {
            let theirs = cpus_of(**number);
            !theirs.is_empty() && (cpus.is_empty() || theirs.iter().any(|c| cpus.contains(c)))
        };
        let mut sorted = numbers;
        sorted.sort_unstable();
        let ours = sorted.iter().find(is_ours).copied().unwrap_or(0);
        let nodes = sorted
            .iter()
            .map(|&number| {
                let (bytes, available) = memory(files, number);
                Node {
                    number,
                    cpus: cpus_of(number),
                    bytes,
                    available,
                    distance: distance(files, ours, number, &sorted),
                    latency: hmat(files, number, "read_latency"),
                    bandwidth: hmat(files, number, "read_bandwidth"),
                    tier: tier(files, number),
                    allowed: allowed.as_ref().is_none_or(|a| a.contains(&number)),
                }
            })
            .filter(|node| node.bytes > 0)
            .collect();
        Machine {
            nodes,
            ours,
            cpus,
            allowed_bytes: allowed_bytes(files),
            kernel_moves: kernel_moves(files),
        }
    }
}

/// Numbers as the kernel lists them: `0-3,8`.
fn parse_list(list: &str) -> Vec<u32> {
    /// More are none that a machine has.
    const MOST: u32 = 1 << 16;
    let mut numbers = vec![];
    for range in list.split(',').filter(|r| !r.trim().is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.trim().parse::<u32>(), last.trim().parse::<u32>());
        if let (Ok(first), Ok(last)) = (first, last) {
            numbers.extend(first..=last.min(first.saturating_add(MOST)));
        }
    }
    numbers
}

/// Bytes of a node, and those that can be had.
fn memory(files: &dyn Files, number: u32) -> (u64, u64) {
    let text = files
        .read(&format!("{NODES}/node{number}/meminfo"))
        .unwrap_or_default();
    let field = |name: &str| {
        let rest = text.lines().find_map(|line| line.split_once(name))?.1;
        let kib = rest.split_whitespace().next()?;
        Some(kib.parse::<u64>().ok()?.saturating_mul(1024))
    };
    let total = field("MemTotal:").unwrap_or(0);
    let free = field("MemFree:").unwrap_or(0);
    // Pages of files go when memory is wanted.
    let files = field("Inactive(file):").unwrap_or(0);
    (total, free.saturating_add(files).min(total))
}

/// What is left below the limits of the group that we are in and of all above it, of either version.
fn allowed_bytes(files: &dyn Files) -> Option<u64> {
    let groups = files.read(GROUPS)?;
    let of = |line: &str| -> Option<u64> {
        let mut fields = line.splitn(3, ':').skip(1);
        let (kinds, path) = (fields.next()?, fields.next()?);
        let (root, limit, used) = match kinds {
            "" => ("/sys/fs/cgroup", "memory.max", "memory.current"),
            kinds if kinds.split(',').any(|kind| kind == "memory") => (
                "/sys/fs/cgroup/memory",
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
            ),
            _ => return None,
        };
        let number = |folder: &str, file: &str| -> Option<u64> {
            let text = files.read(&format!("{root}{folder}/{file}"))?;
            text.trim().parse().ok()
        };
        let left = |folder: &str| {
            // Without a limit there stands `max`, or more than any machine has.
            let limit = number(folder, limit).filter(|limit| *limit < 1 << 60)?;
            // Pages of files go when memory is wanted.
            let stat = files.read(&format!("{root}{folder}/memory.stat"));
            let cached = stat.and_then(|stat| {
                let line = stat
                    .lines()
                    .find_map(|l| l.strip_prefix("inactive_file "))?;
                line.trim().parse().ok()
            });
            let used = number(folder, used).unwrap_or(0);
            Some(limit.saturating_sub(used.saturating_sub(cached.unwrap_or(0))))
        };
        // In a container the path may be one of the host, which is not there: the root is.
        let mut least = left("");
        let mut folder = path.trim_end_matches('/');
        while !folder.is_empty() {
            least = least.into_iter().chain(left(folder)).min();
            folder = folder.rsplit_once('/').map_or("", |(above, _)| above);
        }
        least
    };
    groups.lines().filter_map(of).min()
}

fn distance(files: &dyn Files, from: u32, to: u32, nodes: &[u32]) -> Option<u32> {
    let text = files.read(&format!("{NODES}/node{from}/distance"))?;
    let at = nodes.iter().position(|n| *n == to)?;
    text.split_whitespace().nth(at)?.parse().ok()
}

fn hmat(files: &dyn Files, number: u32, what: &str) -> Option<u32> {
    let path = format!("{NODES}/node{number}/access0/initiators/{what}");
    let value = files.read(&path)?.trim().parse().ok()?;
    // Zero is how the kernel says that it does not know.
    (value > 0).then_some(value)
}

fn tier(files: &dyn Files, number: u32) -> Option<u32> {
    files.names(TIERS).iter().find_map(|name| {
        let tier = name.strip_prefix("memory_tier")?.parse().ok()?;
        let nodes = files.read(&format!("{TIERS}/{name}/nodelist"))?;
        parse_list(nodes.trim()).contains(&number).then_some(tier)
    })
}

fn kernel_moves(files: &dyn Files) -> Vec<String> {
    let mut moves = vec![];
    let is = |path: &str, on: &[&str]| {
        let text = files.read(path).unwrap_or_default();
        on.contains(&text.trim())
    };
    if is("/sys/kernel/mm/numa/demotion_enabled", &["true", "1"]) {
        moves.push(
            "the kernel demotes pages of full nodes (/sys/kernel/mm/numa/demotion_enabled), \
             those of this process, too"
                .into(),
        );
    }
    if is("/proc/sys/kernel/numa_balancing", &["2", "3"]) {
        moves.push(
            "the kernel promotes pages by itself (kernel.numa_balancing has bit 2), those of this \
             process, too"
                .into(),
        );
    }
    moves
}
