//! What shared lines cost on many cores: mean value analysis of a closed network. Each core runs by itself, and
//! waits at each mutex and each line that others write. A line serves one core at a time, for as long as it takes
//! to come over; a mutex for as long as its lines take, and what is done while it is held (Reiser and Lavenberg, 1980).
//!
//! What it leaves out: who waits and spins takes the line from who works, memory bandwidth, the kernel. So it is
//! the bound from above that the counts give, and says where an operation bends first.

use crate::count::Count;

/// Nanoseconds that a line takes from one core to another of the same socket: public measurements of cores with
/// 8 to 64 of them find 30 to 110, most pairs 50 to 80.
pub const TRANSFER_NS: f64 = 70.0;

/// Cores that are reckoned.
const CORES: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// Instructions a nanosecond while a lock is held.
const PER_NS: f64 = 3.0;

/// A mutex, or a line that is written without one.
struct Station<'c> {
    place: &'c str,
    visits: f64,
    /// Nanoseconds that its lines take to come over, and that it is held besides.
    comes: f64,
    held: f64,
}

fn stations(count: &Count, transfer: f64) -> Vec<Station<'_>> {
    let mutexes = count.sections.iter().map(|of| Station {
        place: &of.place,
        visits: of.times,
        comes: of.lines * transfer,
        held: of.held / PER_NS,
    });
    let apart = count.by.iter().filter(|site| site.apart > 0.0);
    let apart = apart.map(|site| Station {
        place: &site.place,
        visits: site.apart,
        comes: transfer,
        held: 0.0,
    });
    mutexes.chain(apart).collect()
}

/// Operations a nanosecond on 1 to `most` cores; a line that is read comes over, but serves all at once.
fn throughput(count: &Count, transfer: f64, most: usize) -> Vec<f64> {
    let stations = stations(count, transfer);
    let mut queue = vec![0.0; stations.len()];
    let mut all = Vec::new();
    for cores in 1..=most {
        let alone = count.alone_ns + count.invalidated * transfer;
        let held_alone: f64 = stations.iter().map(|of| of.visits * of.held).sum();
        let think = (alone - held_alone).max(0.0);
        let waits: Vec<f64> = stations
            .iter()
            .zip(&queue)
            .map(|(of, before)| (of.comes + of.held) * (1.0 + before))
            .collect();
        let inside: f64 = stations
            .iter()
            .zip(&waits)
            .map(|(of, wait)| of.visits * wait)
            .sum();
        let rate = cores as f64 / (think + inside);
        for ((queue, of), wait) in queue.iter_mut().zip(&stations).zip(&waits) {
            *queue = rate * of.visits * wait;
        }
        // One core alone has all lines.
        all.push(if cores == 1 {
            1.0 / count.alone_ns
        } else {
            rate
        });
    }
    all
}

/// Prints the throughput on more cores over that on one, and where it bends first.
pub fn print(counts: &[Count], transfer: f64) {
    print!("{:8} {:12}", "", "");
    for cores in CORES {
        print!(" {cores:>6}");
    }
    println!("  bends first at ({transfer} ns a line)");
    for count in counts {
        let rates = throughput(count, transfer, CORES[CORES.len() - 1]);
        print!(
            "{:8} {:12}",
            format!("{:?}", count.structure).to_lowercase(),
            count.operation.name()
        );
        for cores in CORES {
            print!(" {:6.1}", rates[cores - 1] / rates[0]);
        }
        let load = |of: &Station<'_>| of.visits * (of.comes + of.held);
        let all = stations(count, transfer);
        let first = all.iter().max_by(|a, b| load(a).total_cmp(&load(b)));
        println!("  {}", first.map_or("", |of| of.place));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::{Section, Site};
    use crate::operation::{Operation, Structure};

    fn count(by: Vec<Site>) -> Count {
        Count {
            structure: Structure::Tree,
            operation: Operation::Get,
            alone_ns: 1000.0,
            instructions: 3000.0,
            calls: 0.0,
            atomic: 0.0,
            locks: 0.0,
            written: 0.0,
            written_least: 0,
            invalidated: 0.0,
            by,
            sections: Vec::new(),
        }
    }

    fn site(lines: f64) -> Site {
        Site {
            place: "here".into(),
            written: true,
            lines,
            writes: 1.0,
            apart: lines,
        }
    }

    #[test]
    fn what_shares_nothing_scales() {
        let rates = throughput(&count(Vec::new()), 70.0, 128);
        assert!((rates[127] / rates[0] - 128.0).abs() < 1e-9);
    }

    #[test]
    fn a_line_serves_one_after_the_other() {
        // 1,000 ns for each operation and a line of 100 ns: never more than one operation in 100 ns.
        let rates = throughput(&count(vec![site(1.0)]), 100.0, 128);
        // Full but for what a sum of 128 numbers rounds.
        assert!(rates[127] < 1.0 / 100.0 + 1e-12);
        assert!(rates[127] > 0.99 / 100.0);
        // Two cores hardly ever meet: each does 1,000 ns, then 100 with at most one before it.
        assert!(rates[1] / rates[0] > 2.0 * 1000.0 / 1200.0);
    }

    #[test]
    fn a_lock_is_held_for_its_instructions() {
        let mut count = count(Vec::new());
        count.sections.push(Section {
            place: "here".into(),
            times: 1.0,
            lines: 2.0,
            held: 1500.0,
        });
        let rates = throughput(&count, 100.0, 64);
        // 500 ns held, and 200 for two lines to come over.
        assert!((rates[63] * 700.0 - 1.0).abs() < 0.01);
    }
}
