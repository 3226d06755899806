//! What is found on machines of many kinds, and what is left alone.

use super::*;

const CXL: &str = include_str!("../../fixtures/cxl.txt");

fn found(text: &str) -> Found {
    candidates(&Machine::read(&Fixture::parse(text)))
}

#[test]
fn a_machine_with_one_node_has_one_kind_of_memory_and_says_so() {
    let found = found(include_str!("../../fixtures/one-node.txt"));
    assert_eq!((found.fast, found.slow), (Some(0), None));
    assert_eq!(found.fast_available, Some(21_000_000 << 10));
    assert!(
        found.notes[0].contains("no other node"),
        "{:?}",
        found.notes
    );
}

#[test]
fn the_limits_of_control_groups_bound_what_is_taken() {
    let one = include_str!("../../fixtures/one-node.txt");
    let with = |files: &str| found(&format!("{one}{files}")).fast_available;
    let all = Some(21_000_000 << 10);
    // A container that sees its own group as the root.
    let own = "== /proc/self/cgroup\n0::/\n== /sys/fs/cgroup/memory.max\n2147483648\n\
         == /sys/fs/cgroup/memory.current\n1073741824\n\
         == /sys/fs/cgroup/memory.stat\nanon 7\ninactive_file 1048576\n";
    assert_eq!(with(own), Some((1 << 30) + (1 << 20)));
    assert_eq!(with(&own.replace("2147483648", "max")), all);
    assert_eq!(with(&own.replace("2147483648", "1000")), Some(0));
    // The path of the host, which is not there.
    let host = own.replace("0::/", "0::/docker/77");
    assert_eq!(with(&host), with(own));
    // Of nested groups the narrowest counts.
    let nested = "== /proc/self/cgroup\n0::/a/b/c\n== /sys/fs/cgroup/a/memory.max\n4096\n\
         == /sys/fs/cgroup/a/b/c/memory.max\n1000000\n";
    assert_eq!(with(nested), Some(4096));
    // The first version.
    let old = "== /proc/self/cgroup\n5:cpu,cpuacct:/x\n4:memory:/x\n0::/\n\
         == /sys/fs/cgroup/memory/x/memory.limit_in_bytes\n8192\n\
         == /sys/fs/cgroup/memory/memory.limit_in_bytes\n9223372036854771712\n";
    assert_eq!(with(old), Some(8192));
    assert_eq!(with("== /proc/self/cgroup\nnonsense\n1:\n0::\n"), all);
}

#[test]
fn another_socket_is_a_candidate_that_is_never_taken_silently() {
    let found = found(include_str!("../../fixtures/two-sockets.txt"));
    assert_eq!(found.slow, None);
    let other = &found.candidates[0];
    assert!(!other.taken && other.reason.contains("another socket"));
    assert_eq!(other.latency, Some(210));
}

#[test]
fn memory_behind_cxl_is_taken_and_what_the_kernel_does_is_said() {
    let found = found(CXL);
    assert_eq!((found.fast, found.slow), (Some(0), Some(1)));
    assert_eq!(found.candidates[0].latency, Some(222));
    assert_eq!(found.notes.len(), 2, "{:?}", found.notes);
}

#[test]
fn without_firmware_tables_tiers_tell_and_without_these_the_distance() {
    let without = |text: &str, what: &str| -> String {
        let files = text.split("== ").filter(|file| !file.contains(what));
        files.map(|file| format!("== {file}")).collect()
    };
    let tiers = without(CXL, "read_latency");
    assert_eq!(found(&tiers).slow, Some(1));
    assert!(found(&tiers).candidates[0].reason.contains("tier"));
    // A kernel that knows no latencies has all nodes in one tier.
    let one = tiers.replace("memory_tier961/nodelist\n1", "memory_tier4/nodelist\n0-1");
    let one = without(&one, "memory_tier4/nodelist\n0\n");
    assert!(found(&one).candidates[0].reason.contains("distance"));
    assert_eq!(found(&one).slow, Some(1));
    // 14 is 1.4 times 10.
    let distance = without(&tiers, "memory_tiering");
    assert!(found(&distance).candidates[0].reason.contains("distance"));
    assert_eq!(found(&distance).slow, Some(1));
    let nothing = without(&distance, "distance");
    assert_eq!(found(&nothing).slow, None);
    assert!(
        found(&nothing).candidates[0]
            .reason
            .contains("nothing tells")
    );
}

#[test]
fn memory_with_more_bandwidth_is_not_slow_memory() {
    let max = include_str!("../../fixtures/xeon-max.txt");
    let other = found(max);
    assert_eq!(other.slow, None);
    assert!(other.candidates[0].reason.contains("HBM"), "{other:?}");
    // Memory of a GPU: farther, and still more bandwidth.
    let gpu = max.replace("\n130\n", "\n400\n");
    assert_eq!(found(&gpu).slow, None);
    assert!(found(&gpu).candidates[0].reason.contains("GPU"));
}

#[test]
fn a_node_outside_of_the_cpuset_is_not_taken() {
    let found = found(&CXL.replace("Mems_allowed_list:\t0-1", "Mems_allowed_list:\t0"));
    assert_eq!(found.slow, None);
    assert!(found.candidates[0].reason.contains("cpuset"));
}

#[test]
fn of_two_slow_nodes_the_nearer_is_taken() {
    let second = CXL.split("== ").filter(|f| f.contains("/node1/"));
    let second: String = second
        .map(|f| format!("== {}", f.replace("node1", "node2").replace("245", "400")))
        .collect();
    let text = format!("{CXL}{second}").replace("list:\t0-1", "list:\t0-2");
    let found = found(&text);
    assert_eq!(found.slow, Some(1));
    assert!(found.candidates[1].reason.contains("nearer"));
}

#[test]
fn no_files_and_files_of_nonsense_give_one_kind_of_memory() {
    assert_eq!(found("").slow, None);
    let nonsense = "== /sys/devices/system/node/node0/cpulist\n9-1,x,-,4294967295-0\n\
         == /sys/devices/system/node/node0/meminfo\nMemTotal: many kB\n\
         == /sys/devices/system/node/nodeX/cpulist\n0\n";
    assert_eq!(found(nonsense).slow, None);
    for cut in (0..CXL.len())
        .step_by(7)
        .filter(|cut| CXL.is_char_boundary(*cut))
    {
        let _ = found(&CXL[..cut]);
        let _ = found(&CXL[cut..]);
    }
}
