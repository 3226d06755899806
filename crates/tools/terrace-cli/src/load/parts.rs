//! The parts of a dump of several structures: each begins with a line that says what it is of.

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};
use terrace::StructureInfo;

use crate::engine::{Compression, Index, IndexInfo, Tiers, TreeSettings};
use crate::output::tell;

/// The field that only such a line has.
const FIELD: &str = "structure";

/// The line before the records of a structure.
pub fn line(info: &StructureInfo) -> Result<String> {
    Ok(json!({ FIELD: serde_json::to_value(info)? }).to_string())
}

/// What a line of a dump says of the structure of the records behind it, if it is no record.
pub fn parse(object: &Map<String, Value>) -> Option<Result<StructureInfo>> {
    let info = object.get(FIELD)?;
    Some(
        serde_json::from_value(info.clone())
            .context("the line says nothing that is known of a structure"),
    )
}

/// How the structure is to be made. Indexes by a function of the program that made them are left out, and
/// that is told.
pub fn settings(info: &StructureInfo) -> Result<TreeSettings> {
    let (known, unknown): (Vec<_>, Vec<_>) = info
        .indexes
        .iter()
        .partition(|index| !index.is_by_function());
    for index in unknown {
        tell(&format!(
            "terrace: the index {:?} of {:?} is by a function of the program that made it, so it is not made \
             here",
            index.name, info.name
        ));
    }
    Ok(TreeSettings {
        kind: info.kind,
        tiers: if info.tiers == Tiers::One { 1 } else { 2 },
        policy: info.policy,
        logged: info.logged,
        inclusive: Some(info.inclusive),
        own_hashes: false,
        hot_heap: Some(info.hot_heap),
        // What no dump says is as it is in a new one.
        in_memory: (info.hot_in_memory || info.hot_in_file).then_some(info.hot_in_memory),
        expected_kind: Some(info.kind),
        expected_tiers: None,
        compression: (info.compression != Compression::None).then_some(info.compression),
        expiring: info.expiring,
        indexes: known.into_iter().map(index).collect::<Result<_>>()?,
    })
}

fn index(info: &IndexInfo) -> Result<Index> {
    // The name by itself: it may have a sign that a text of both is divided by.
    let index = Index::on(&info.name, info.source.parse()?);
    Ok(if info.unique { index.unique() } else { index })
}
