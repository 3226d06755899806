//! `INFO`: what exporters and client libraries read.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use super::call::Call;
use crate::host::{Host, locked};
use crate::options::AppendFsync;
use crate::proto::VERSION;
use crate::stop::Run;
use crate::store::keyspace::DATABASES;

/// Sections that are shown without being asked for, in their order.
const USUAL: &[&str] = &[
    "server",
    "clients",
    "memory",
    "persistence",
    "stats",
    "replication",
    "cpu",
    "modules",
    "errorstats",
    "cluster",
    "keyspace",
    "terrace",
];

/// `INFO`.
pub fn info(c: &mut Call) -> Run {
    let mut wanted: Vec<String> = Vec::new();
    for name in c.args.from(1) {
        match String::from_utf8_lossy(name).to_ascii_lowercase().as_str() {
            "default" => wanted.extend(USUAL.iter().map(|s| (*s).to_owned())),
            "all" | "everything" => {
                wanted.extend(USUAL.iter().map(|s| (*s).to_owned()));
                wanted.push("commandstats".to_owned());
            }
            name => wanted.push(name.to_owned()),
        }
    }
    if wanted.is_empty() {
        wanted.extend(USUAL.iter().map(|s| (*s).to_owned()));
    }
    let mut text = String::new();
    for section in wanted {
        let body = self::section(c.host, &section)?;
        if !body.is_empty() {
            if !text.is_empty() {
                text += "\r\n";
            }
            text += &body;
        }
    }
    c.out.verbatim(&text);
    Ok(())
}

/// Bytes of memory that the process has, as the operating system says.
pub fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}

/// Seconds of processor time, in the kernel and in the program.
fn processor_seconds() -> (f64, f64) {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = text.rsplit_once(')').map_or("", |(_, after)| after);
    let ticks = |at: usize| {
        let field = after.split_whitespace().nth(at);
        field.and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0) / 100.0
    };
    (ticks(12), ticks(11))
}

fn section(host: &Host, name: &str) -> Run<String> {
    let mut text = String::new();
    let counts = &host.counts;
    let count = |c: &std::sync::atomic::AtomicU64| c.load(Ordering::Relaxed);
    // Writing to memory does not fail.
    macro_rules! line {
        ($($what:tt)*) => {{ let _ = write!(text, $($what)*); text += "\r\n"; }};
    }
    match name {
        "server" => {
            let up = host.started.elapsed().as_secs();
            line!("# Server");
            line!("redis_version:{VERSION}");
            line!("redis_git_sha1:00000000\r\nredis_git_dirty:0\r\nredis_build_id:0");
            line!("redis_mode:standalone");
            line!("os:{} {}", std::env::consts::OS, std::env::consts::ARCH);
            line!("arch_bits:{}", usize::BITS);
            line!("multiplexing_api:epoll");
            line!("process_id:{}", std::process::id());
            line!("run_id:{}", host.run_id);
            line!("tcp_port:{}", host.port.load(Ordering::Relaxed));
            line!("server_time_usec:{}", host.store.now() * 1000);
            line!("uptime_in_seconds:{up}\r\nuptime_in_days:{}", up / 86_400);
            line!("hz:10\r\nconfigured_hz:10\r\nlru_clock:0");
            line!("executable:\r\nconfig_file:");
        }
        "clients" => {
            line!("# Clients");
            line!("connected_clients:{}", locked(&host.clients).len());
            line!("cluster_connections:0");
            line!(
                "maxclients:{}",
                host.settings.max_clients.load(Ordering::Relaxed)
            );
            line!("client_recent_max_input_buffer:0\r\nclient_recent_max_output_buffer:0");
            line!("blocked_clients:{}", host.signals.waiting());
            line!("tracking_clients:0\r\nclients_in_timeout_table:0");
        }
        "memory" => {
            let memory = host.store.db.stats().memory;
            let used = memory.limit.saturating_sub(memory.unused);
            line!("# Memory");
            line!(
                "used_memory:{used}\r\nused_memory_human:{:.2}M",
                used as f64 / 1e6
            );
            line!("used_memory_rss:{}", resident_bytes());
            line!("used_memory_peak:{used}");
            line!("total_system_memory:0\r\nused_memory_lua:0");
            line!(
                "maxmemory:{}\r\nmaxmemory_human:{:.2}M",
                memory.limit,
                memory.limit as f64 / 1e6
            );
            line!("maxmemory_policy:noeviction");
            line!("mem_fragmentation_ratio:1.00\r\nmem_allocator:system");
            line!(
                "mem_clients_normal:{}",
                host.buffered.load(Ordering::Relaxed)
            );
        }
        "persistence" => {
            let failed = host.sync_failed.load(Ordering::Relaxed);
            let log = host.store.db.stats().log;
            let how = if failed { "err" } else { "ok" };
            line!("# Persistence");
            line!("loading:0\r\nasync_loading:0");
            line!("rdb_changes_since_last_save:0\r\nrdb_bgsave_in_progress:0");
            line!("rdb_last_save_time:{}", count(&host.last_save));
            line!(
                "rdb_last_bgsave_status:ok\r\nrdb_last_bgsave_time_sec:0\r\nrdb_current_bgsave_time_sec:-1"
            );
            line!("aof_enabled:1\r\naof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0");
            line!("aof_last_rewrite_time_sec:0\r\naof_current_rewrite_time_sec:-1");
            line!("aof_last_bgrewrite_status:ok\r\naof_last_write_status:{how}");
            line!(
                "aof_current_size:{}\r\naof_base_size:0",
                log.bytes_since_checkpoint
            );
        }
        "stats" => {
            line!("# Stats");
            line!("total_connections_received:{}", count(&counts.connections));
            line!("total_commands_processed:{}", count(&counts.commands));
            line!("instantaneous_ops_per_sec:0");
            line!("total_net_input_bytes:{}", count(&counts.read));
            line!("total_net_output_bytes:{}", count(&counts.written));
            line!("rejected_connections:{}", count(&counts.rejected));
            line!("sync_full:0\r\nsync_partial_ok:0\r\nsync_partial_err:0");
            line!(
                "expired_keys:{}\r\nexpired_subkeys:{}\r\nexpired_stale_perc:0.00",
                count(&counts.expired),
                count(&counts.fields_expired)
            );
            line!("evicted_keys:0\r\nevicted_clients:0");
            line!("keyspace_hits:{}", count(&counts.hits));
            line!("keyspace_misses:{}", count(&counts.misses));
            line!("pubsub_channels:{}", host.channels.names(None).len());
            line!("pubsub_patterns:{}", host.channels.patterns());
            line!("latest_fork_usec:0\r\ntotal_forks:0");
            line!("total_error_replies:{}", count(&counts.errors));
        }
        "replication" => {
            line!("# Replication");
            line!("role:master\r\nconnected_slaves:0\r\nmaster_failover_state:no-failover");
            line!("master_replid:{}", host.run_id);
            line!("master_repl_offset:0\r\nsecond_repl_offset:-1\r\nrepl_backlog_active:0");
        }
        "cpu" => {
            let (kernel, program) = processor_seconds();
            line!("# CPU");
            line!("used_cpu_sys:{kernel:.6}\r\nused_cpu_user:{program:.6}");
            line!("used_cpu_sys_children:0.000000\r\nused_cpu_user_children:0.000000");
        }
        "modules" => line!("# Modules"),
        "errorstats" => line!("# Errorstats"),
        "cluster" => line!("# Cluster\r\ncluster_enabled:0"),
        "commandstats" => {
            line!("# Commandstats");
            for (name, counted) in host.names.iter().zip(&host.counted) {
                let (calls, micros) = (count(&counted.calls), count(&counted.micros));
                if calls > 0 {
                    line!(
                        "cmdstat_{name}:calls={calls},usec={micros},usec_per_call={:.2},rejected_calls=0,failed_calls={}",
                        micros as f64 / calls as f64,
                        count(&counted.failed)
                    );
                }
            }
        }
        "keyspace" => {
            line!("# Keyspace");
            for db in 0..DATABASES {
                // About how many, when there are many.
                let keys = host.store.estimated_keys(db)?;
                if keys > 0 {
                    line!("db{db}:keys={keys},expires=0,avg_ttl=0");
                }
            }
        }
        "terrace" => {
            let stats = host.store.db.stats();
            let sum = |f: fn(&terrace::StructureStats) -> u64| -> u64 {
                stats.structures.iter().map(f).sum()
            };
            line!("# Terrace");
            line!("terrace_version:{}", env!("CARGO_PKG_VERSION"));
            line!(
                "terrace_durability:{}",
                match host.appendfsync() {
                    AppendFsync::No => "survives a crash of the process",
                    AppendFsync::EverySec =>
                        "survives a crash of the process, and a power cut after a second",
                    AppendFsync::Always => "survives a power cut when it is answered",
                }
            );
            line!("terrace_keys_are_estimated:1");
            line!("terrace_memory_limit:{}", stats.memory.limit);
            line!("terrace_data_file_bytes:{}", stats.pages.data_file_bytes);
            line!("terrace_page_reads:{}", stats.pages.reads);
            let others = [
                stats.pages.demotion_reads,
                stats.pages.ageing_reads,
                stats.pages.merging_reads,
            ];
            let others: u64 = others.into_iter().sum();
            line!(
                "terrace_page_reads_for_callers:{}",
                stats.pages.reads.saturating_sub(others)
            );
            line!("terrace_page_writes:{}", stats.pages.writes);
            line!("terrace_hot_hits:{}", sum(|s| s.hot_hits));
            line!("terrace_cold_hits:{}", sum(|s| s.cold_hits));
            line!("terrace_log_bytes:{}", stats.log.bytes);
            line!("terrace_log_syncs:{}", stats.log.syncs);
            line!("terrace_parked_commands:{}", count(&counts.parked));
            line!(
                "terrace_slow_readers_closed:{}",
                count(&counts.slow_readers)
            );
            line!(
                "terrace_data_limit_reached:{}",
                u8::from(host.store.full.load(Ordering::Relaxed))
            );
            line!(
                "terrace_sync_failed:{}",
                u8::from(host.sync_failed.load(Ordering::Relaxed))
            );
        }
        _ => {}
    }
    Ok(text)
}
