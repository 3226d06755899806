//! `terrace place doctor`: which kinds of memory there are.

use anyhow::Result;
use serde_json::{Value, json};
use std::fmt::Write;
use std::process::ExitCode;
use terrace_place::doctor::{Report, examine};

use crate::args::{DoctorArgs, PlaceCommand};
use crate::output::print;

/// `terrace place`
pub fn run(command: &PlaceCommand) -> Result<ExitCode> {
    let PlaceCommand::Doctor(DoctorArgs { json }) = command;
    let report = examine();
    let text = if *json {
        format!("{}\n", as_json(&report))
    } else {
        as_text(&report)
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn as_json(report: &Report) -> Value {
    let nodes: Vec<Value> = report
        .machine
        .nodes
        .iter()
        .map(|node| {
            let other = report.found.candidates.iter();
            let other = other.clone().find(|c| c.node == node.number);
            json!({
                "node": node.number,
                "processors": node.cpus.len(),
                "bytes": node.bytes,
                "available": node.available,
                "allowed": node.allowed,
                "ours": node.number == report.machine.ours,
                "distance": node.distance,
                "latency_ns": node.latency,
                "bandwidth_mib": node.bandwidth,
                "tier": node.tier,
                "latency_percent": other.and_then(|c| c.latency),
                "taken": other.is_some_and(|c| c.taken),
                "reason": other.map(|c| c.reason.clone()),
            })
        })
        .collect();
    let measured: Vec<Value> = report
        .measured
        .iter()
        .map(|m| match &m.nanoseconds {
            Ok(ns) => json!({"memory": m.memory.to_string(), "ns": (ns * 10.0).round() / 10.0}),
            Err(error) => json!({"memory": m.memory.to_string(), "error": error.to_string()}),
        })
        .collect();
    json!({
        "fast": report.found.fast,
        "slow": report.found.slow,
        "nodes": nodes,
        "measured": measured,
        "notes": report.found.notes,
    })
}

fn as_text(report: &Report) -> String {
    let mut text = String::new();
    let gib = |bytes: u64| bytes as f64 / (1u64 << 30) as f64;
    for node in &report.machine.nodes {
        let _ = write!(
            text,
            "node {}: {:.1} GiB, {:.1} available, {} processors",
            node.number,
            gib(node.bytes),
            gib(node.available),
            node.cpus.len()
        );
        if node.number == report.machine.ours {
            text.push_str("; ours");
        }
        text.push('\n');
        for other in report
            .found
            .candidates
            .iter()
            .filter(|c| c.node == node.number)
        {
            let taken = if other.taken { "taken" } else { "not taken" };
            let _ = writeln!(text, "  {taken}: {}", other.reason);
        }
    }
    for measured in &report.measured {
        let _ = match &measured.nanoseconds {
            Ok(ns) => writeln!(text, "a read of {} takes {ns:.0} ns", measured.memory),
            Err(error) => writeln!(text, "{} was not measured: {error}", measured.memory),
        };
    }
    for note in &report.found.notes {
        let _ = writeln!(text, "{note}");
    }
    text
}
