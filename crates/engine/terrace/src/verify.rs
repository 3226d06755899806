//! Checking a whole database: every structure's invariants, and who owns every page.

use std::sync::Arc;

use terrace_access::{Flags, Value};
use terrace_base::{Error, PageId, Result};

use crate::catalog::opened::Open;
use crate::core::Core;
use crate::gentle::Cancel;
use crate::kinds::structures;
use crate::planted::{Fault, planted};
use crate::progress::{Progress, Teller, Work};
use crate::table::verify::{Listener, check_indexes};

/// What a verification found.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
#[must_use = "what is wrong is in it: see `is_clean` and `into_result`"]
#[non_exhaustive]
pub struct VerifyReport {
    /// The structures, those that are being dropped included.
    pub structures: Vec<VerifiedStructure>,
    /// Pages of the catalog.
    pub catalog_pages: u64,
    /// Pages that exist.
    pub live_pages: u64,
    /// Pages that exist and to which nothing points: space that is lost until [`crate::Database::reclaim`] gets it
    /// back, and no damage. A large value that was overwritten while the disk could not be read leaves some.
    /// Zero where there are problems: then it is not known.
    pub lost_pages: u64,
    /// What is wrong; nothing, one hopes.
    pub problems: Vec<String>,
}

/// What a verification found of one structure.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct VerifiedStructure {
    /// Its name.
    pub name: String,
    /// Whether it was dropped and is being taken apart.
    pub dropping: bool,
    /// Records; of one that is being taken apart none.
    pub records: u64,
    /// Pages.
    pub pages: u64,
    /// The table, if it is an index of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index_of: Option<String>,
    /// What could not be checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl VerifyReport {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        !self.is_damaged() && self.lost_pages == 0
    }

    /// Whether something is damaged: then there are problems. Space that is lost is no damage.
    pub fn is_damaged(&self) -> bool {
        !self.problems.is_empty()
    }

    /// Nothing if nothing is wrong, so that `db.verify()?.into_result()?` fails where something is.
    ///
    /// # Errors
    /// [`Error::Corrupt`] with the first problem and the number of all; [`Error::Invalid`] where only space is
    /// lost.
    pub fn into_result(self) -> Result<()> {
        let Some(first) = self.problems.first() else {
            return match self.lost_pages {
                0 => Ok(()),
                lost => Err(Error::invalid(format!(
                    "{lost} pages belong to nobody: space that is lost, and no damage; get it back with Database::reclaim, or `terrace verify --reclaim`"
                ))),
            };
        };
        let all = self.problems.len();
        Err(Error::corrupt(
            "data",
            None,
            format!("{first} ({all} problems in all)"),
        ))
    }
}

impl std::fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for s in &self.structures {
            let dropping = if s.dropping { " (being dropped)" } else { "" };
            let note = s
                .note
                .as_ref()
                .map_or_else(String::new, |note| format!(" ({note})"));
            let name = match &s.index_of {
                Some(table) => format!("{table}, index {}", s.name),
                None => s.name.clone(),
            };
            writeln!(
                f,
                "{name:<32} {:>14} records {:>12} pages{dropping}{note}",
                s.records, s.pages
            )?;
        }
        writeln!(
            f,
            "{:<32} {:>14}         {:>12} pages",
            "catalog", "", self.catalog_pages
        )?;
        writeln!(
            f,
            "{:<32} {:>14}         {:>12} pages",
            "in all", "", self.live_pages
        )?;
        if self.lost_pages > 0 {
            writeln!(
                f,
                "{:<32} {:>14}         {:>12} pages (no damage; `terrace verify --reclaim` gets them back)",
                "lost", "", self.lost_pages
            )?;
        }
        if !self.is_damaged() {
            return writeln!(f, "no problems found");
        }
        writeln!(f, "{} problems:", self.problems.len())?;
        self.problems
            .iter()
            .try_for_each(|problem| writeln!(f, "  {problem}"))
    }
}

/// What becomes of pages to which nothing points.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lost {
    Stays,
    IsFreed,
}

/// Problems that are listed; more say nothing new.
const MOST_PROBLEMS: usize = 100;

/// One bit for each page number: a verification takes little memory beyond the limit.
struct Owned<'t> {
    bits: Vec<u64>,
    count: u64,
    problems: Problems,
    teller: Teller<'t>,
    cancel: &'t Cancel,
}

/// An error once a verification was cancelled.
fn go_on(cancel: &Cancel) -> Result<()> {
    match cancel.is_cancelled() {
        false => Ok(()),
        true => Err(Error::Cancelled {
            what: "the verification; it changes nothing".into(),
        }),
    }
}

impl Owned<'_> {
    fn claim(&mut self, owner: &str, page: PageId) {
        let (word, bit) = ((page.0 / 64) as usize, 1u64 << (page.0 % 64));
        if page > PageId::MAX {
            return self.problem(format!("\"{owner}\" names {page}, which cannot be"));
        }
        if self.bits.len() <= word {
            self.bits.resize(word + 1, 0);
        }
        if self.bits[word] & bit != 0 {
            return self.problem(format!(
                "{page} belongs to \"{owner}\" and to another, or twice"
            ));
        }
        self.bits[word] |= bit;
        self.count += 1;
        self.teller.is_at(self.count);
    }

    fn problem(&mut self, problem: String) {
        self.problems.add(problem);
    }
}

/// What is wrong, as far as it is listed.
#[derive(Default)]
struct Problems(Vec<String>);

impl Problems {
    fn add(&mut self, problem: String) {
        if self.0.len() < MOST_PROBLEMS {
            self.0.push(problem);
        }
    }
}

impl Core {
    /// Checks everything while no other thread does anything.
    pub fn verify(
        &self,
        progress: &mut dyn FnMut(Progress),
        cancel: &Cancel,
    ) -> Result<VerifyReport> {
        self.verify_and(Lost::Stays, progress, cancel)
    }

    /// The same, and frees the pages to which nothing points; how many they were.
    pub fn reclaim(&self) -> Result<u64> {
        let before = self.verify_and(Lost::IsFreed, &mut |_| (), &Cancel::new())?;
        let lost = before.lost_pages;
        VerifyReport {
            lost_pages: 0,
            ..before
        }
        .into_result()?;
        Ok(lost)
    }

    fn verify_and(
        &self,
        lost: Lost,
        progress: &mut dyn FnMut(Progress),
        cancel: &Cancel,
    ) -> Result<VerifyReport> {
        // Or it would come to pages that are counted already.
        self.heard(self.load_all_saved())?;
        // In this order: others go on while one is waited for, and a checkpoint may end with a pause.
        let _no_checkpoint = self.checkpoints().hold();
        let _nobody_calls = self.passes().pause()?;
        let _no_drop = self.drops().hold();
        let mut demotion = self.demotion().pause();
        // Who closes up what was loaded.
        let nobody_works = self.tiers().hold_background();
        let report = self.verify_alone(lost, progress, cancel);
        drop(nobody_works);
        demotion.resume()?;
        report
    }

    fn verify_alone(
        &self,
        lost: Lost,
        progress: &mut dyn FnMut(Progress),
        cancel: &Cancel,
    ) -> Result<VerifyReport> {
        let live_pages = self.store().pages_in_use();
        let mut owned = Owned {
            bits: Vec::new(),
            count: 0,
            problems: Problems::default(),
            teller: Teller::new(progress, Work::Pages, live_pages),
            cancel,
        };
        let mut page = |page| {
            owned.claim("the catalog", page);
            Ok(())
        };
        if let Err(e) = self.registry().catalog().verify(&mut page) {
            owned.problem(format!("the catalog: {e}"));
        }
        let catalog_pages = owned.count;
        let mut structures = Vec::new();
        for open in self.registry().all() {
            let mut verified = self.verify_structure(&open, &mut owned);
            let index = open.index.as_ref();
            let table = index.and_then(|index| self.registry().numbered(index.table));
            verified.index_of = table.map(|table| table.name());
            structures.push(verified);
            go_on(cancel)?;
        }
        let mut lost_pages = 0;
        if owned.count < live_pages && owned.problems.0.is_empty() {
            lost_pages = live_pages - owned.count;
            if lost == Lost::IsFreed {
                self.heard(self.free_lost(&owned.bits))?;
            }
        } else if owned.count != live_pages {
            let (owned_pages, what) = (owned.count, live_pages.abs_diff(owned.count));
            owned.problem(format!(
                "{live_pages} pages exist, and {owned_pages} belong to somebody: {what} {}",
                if owned_pages < live_pages {
                    "are lost"
                } else {
                    "are used and free"
                }
            ));
        }
        let Owned {
            teller,
            mut problems,
            ..
        } = owned;
        teller.end();
        // Reading rows may move them between the tiers, so this comes after counting pages.
        self.check_tables(&mut structures, &mut problems, progress, cancel);
        go_on(cancel)?;
        if let Err(e) = self.store().check_poison() {
            problems.add(e.to_string());
        }
        Ok(VerifyReport {
            structures,
            catalog_pages,
            live_pages,
            lost_pages,
            problems: problems.0,
        })
    }

    /// Frees every page that is not among these. No other thread is at work.
    fn free_lost(&self, owned: &[u64]) -> Result<()> {
        let is_owned = |number: u64| {
            let word = owned.get((number / 64) as usize);
            word.is_some_and(|word| word & 1 << (number % 64) != 0)
        };
        (0..self.store().page_numbers())
            .filter(|number| !is_owned(*number))
            .try_for_each(|number| self.store().free_unowned(PageId(number)))
    }
}

impl Core {
    /// Whether the indexes of all tables agree with the rows.
    fn check_tables(
        &self,
        structures: &mut [VerifiedStructure],
        problems: &mut Problems,
        progress: &mut dyn FnMut(Progress),
        cancel: &Cancel,
    ) {
        let all = self.registry().all();
        let with_indexes = |open: &&Arc<Open>| {
            let table = open.table.as_ref().filter(|_| !open.is_dropped());
            table.is_some_and(|table| !table.snapshot().is_empty())
        };
        let tables: Vec<_> = all.iter().filter(with_indexes).collect();
        if tables.is_empty() {
            return;
        }
        // Both are in the order of the registry.
        let is_looked_at = |open: &Arc<Open>| {
            let number = open.index.as_ref().map_or(open.id(), |index| index.table);
            tables.iter().any(|table| table.id() == number) && !open.is_dropped()
        };
        let found = all.iter().zip(structures.iter());
        let total = found.filter(|(open, _)| is_looked_at(open));
        let total = total.map(|(_, found)| found.records).sum();
        let mut teller = Teller::new(progress, Work::Rows, total);
        for open in tables {
            let Some(table) = &open.table else { continue };
            let mut note = |index: &Open, note| {
                let at = all.iter().position(|other| other.id() == index.id());
                if let Some(verified) = at.and_then(|at| structures.get_mut(at)) {
                    verified.note = Some(note);
                }
            };
            let mut listener = Listener {
                problem: &mut |problem| problems.add(problem),
                note: &mut note,
                looked_at: &mut || {
                    teller.one_more();
                    go_on(cancel)
                },
            };
            if let Err(e) = check_indexes(open, &table.snapshot(), &mut listener) {
                problems.add(format!("\"{}\" and its indexes: {e}", open.name()));
            }
        }
        teller.end();
    }
}

impl Core {
    fn verify_structure(&self, open: &Open, owned: &mut Owned<'_>) -> VerifiedStructure {
        let (name, dropping) = (open.name(), open.is_dropped());
        let mut records = 0;
        let before = owned.count;
        let cancel = owned.cancel;
        let mut each = |_: &[u8], _: Flags, _: Value<'_>| {
            records += 1;
            Ok::<(), Error>(())
        };
        let mut page = |page| {
            owned.claim(&name, page);
            go_on(cancel)
        };
        // No caller hears what is told of one that was cancelled.
        let result = match dropping && !planted(Fault::DroppedAsWhole) {
            true => {
                open.structure.each_memory_page(&mut |pid| {
                    let _ = page(pid);
                });
                let roots = open.structure.roots();
                structures::verify_pages(self.store(), open.spec, roots, &mut page)
            }
            false => open.structure.verify(&mut each, &mut page),
        };
        if let Err(e) = result {
            owned.problem(format!("\"{name}\": {e}"));
        }
        VerifiedStructure {
            dropping,
            records,
            pages: owned.count - before,
            name,
            index_of: None,
            note: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_cancelled_says_so_and_finds_nothing_wrong() {
        let options = crate::Options::new().memory(2 << 20).foreground(true);
        let db = crate::Database::open_on(terrace_sim::SimDisk::new(1).shared(), options).unwrap();
        let rows = db.table("rows").unwrap();
        rows.create_index("city=json:/city".parse().unwrap())
            .unwrap();
        for i in 0..2000u32 {
            rows.put(i.to_be_bytes(), r#"{"city":"Oslo"}"#).unwrap();
        }
        // While pages are read, and while rows and entries are compared.
        for work in [Work::Pages, Work::Rows] {
            let cancel = Cancel::new();
            let mut last = None;
            let told = db.core().verify(
                &mut |progress| {
                    if progress.work == work && progress.done > 0 {
                        cancel.cancel();
                    }
                    last = Some(progress);
                },
                &cancel,
            );
            assert!(matches!(told, Err(Error::Cancelled { .. })), "{told:?}");
            assert_eq!(last.map(|last| last.work), Some(work));
        }
        assert!(db.verify().unwrap().is_clean());
    }

    #[test]
    fn a_report_with_problems_is_an_error_that_names_the_first() {
        assert!(VerifyReport::default().into_result().is_ok());
        let report = VerifyReport {
            problems: vec!["page 3 has no owner".into(), "page 4 has two".into()],
            ..VerifyReport::default()
        };
        let told = report.into_result().unwrap_err().to_string();
        assert!(
            told.contains("page 3 has no owner (2 problems in all)"),
            "{told}"
        );
    }
}
