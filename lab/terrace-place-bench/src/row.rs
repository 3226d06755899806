//! A measurement: what stands in a row of a table, and in a line of JSON.

use crate::run::Outcome;
use serde_json::{Value, json};

/// One measurement.
#[derive(Debug, Clone)]
pub struct Row {
    pub figure: &'static str,
    pub tree: &'static str,
    pub policy: String,
    pub workload: String,
    pub fast_share: f64,
    pub missing_fast_share: f64,
    /// Of what the best placement of nodes reaches on the same tree and trace.
    pub over_optimum: Option<f64>,
    pub moves_per_1000: f64,
    /// Further figures, by name.
    pub more: Vec<(String, Value)>,
    /// A series over time, or over what the figure varies.
    pub series: Vec<f64>,
}

impl Row {
    pub fn of(
        (figure, tree): (&'static str, &'static str),
        policy: String,
        workload: &str,
        fast_share: f64,
        outcome: &Outcome,
        optimum: Option<f64>,
        rs: &[f64],
    ) -> Row {
        let mut more = vec![
            (
                "fast_share_of_touches".into(),
                json!(round(outcome.fast_all)),
            ),
            ("missing_per_op".into(), json!(round(outcome.missing))),
            ("slow_per_op".into(), json!(round(outcome.slow))),
            ("filled".into(), json!(round(outcome.filled))),
        ];
        for r in rs {
            more.push((format!("time_r{r}"), json!(round(outcome.time(*r)))));
            for (name, q) in [("p90", 0.9), ("p99", 0.99), ("p999", 0.999)] {
                more.push((format!("{name}_r{r}"), json!(outcome.quantile(q, *r))));
            }
        }
        Row {
            figure,
            tree,
            policy,
            workload: workload.into(),
            fast_share,
            missing_fast_share: outcome.fast_missing,
            over_optimum: optimum.map(|best| outcome.fast_missing / best.max(1e-9)),
            moves_per_1000: outcome.moves_per_1000,
            more,
            series: outcome.series.clone(),
        }
    }

    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Row {
        self.more.push((name.into(), value.into()));
        self
    }

    pub fn json(&self) -> Value {
        let mut value = json!({
            "figure": self.figure,
            "tree": self.tree,
            "policy": self.policy,
            "workload": self.workload,
            "fast_share": self.fast_share,
            "missing_fast_share": round(self.missing_fast_share),
            "over_optimum": self.over_optimum.map(round),
            "moves_per_1000": round(self.moves_per_1000),
        });
        for (name, more) in &self.more {
            value[name] = more.clone();
        }
        if !self.series.is_empty() {
            value["series"] = self.series.iter().map(|v| round(*v)).collect();
        }
        value
    }
}

pub fn round(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}
