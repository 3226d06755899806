//! Which file calls inherent methods of which. Names are resolved as far as it can be told without the compiler: by the
//! receiver's type where a declaration says it, else by the method's name if one file alone has a method of this name
//! and no trait, crate below or type of the standard library has one.

use std::collections::{BTreeMap, BTreeSet};

use crate::components::Needs;
use crate::methods::Receiver;
use crate::modules::Modules;

/// Names of methods of the standard library: a receiver of a type that is not known may be one of its types.
const STANDARD: &str = "abs all and and_then any append arg args as_bytes as_deref as_mut as_ref as_slice as_str back bits borrow by \
    by_ref bytes capacity chain chars checked_add checked_sub chunks clear clone cloned close cmp code collect \
    compare_exchange concat contains contains_key copied copy count dedup display drain drop elapsed end entry \
    enumerate env eq err exists exit expect extend fetch_add fetch_sub file file_name fill filter filter_map \
    find finish first flat_map flatten flush fold for_each format front get get_mut get_or_init hash head insert \
    insert_str into_inner into_iter is_empty is_err is_file is_none is_ok is_some iter iter_mut join key keys \
    kind last len line lines load lock map map_err max max_by metadata min min_by new next nth ok ok_or open \
    options or or_default or_else or_insert or_insert_with parent parse partition path peek pid pop pop_back \
    pop_front position product push push_back push_front push_str range read recv remove repeat replace reserve \
    resize retain rev reverse rotate rposition run saturating_sub seek send set size skip skip_while sleep slice \
    sort source spawn splice split split_at start starts_with status step store strip_prefix sum swap sync_all \
    sync_data tail take take_while then then_some to_owned to_string to_vec trim truncate try_from try_into \
    try_lock try_recv unlock unwrap unwrap_or update values version wait wait_timeout windows with wrapping_add \
    write write_all yield_now zip";

/// What each file of a crate calls of others. `below` are the crates that it may use.
pub fn calls(modules: &Modules<'_>, below: &[Modules<'_>]) -> Needs {
    let mut all = Known::of(modules);
    for (_, module) in below.iter().flat_map(Modules::files) {
        let names = module.methods.answers.keys().map(|(_, name)| name);
        let names = names.chain(&module.methods.of_traits);
        all.of_others.extend(names.map(String::as_str));
    }
    let mut needs = Needs::new();
    for (path, module) in modules.files() {
        let needed = needs.entry(path.into()).or_default();
        for (receiver, name) in &module.methods.calls {
            if let Some(file) = all.called(path, receiver, name) {
                needed.entry(file.into()).or_default().insert(name.clone());
            }
        }
    }
    needs
}

/// The files that have something, by its name.
type Owners<'m, N> = BTreeMap<N, BTreeSet<&'m str>>;

/// What all files of a crate have.
#[derive(Default)]
struct Known<'m> {
    methods: Owners<'m, (&'m str, &'m str)>,
    names: Owners<'m, &'m str>,
    fields: BTreeMap<(&'m str, &'m str), &'m str>,
    answers: BTreeMap<(&'m str, &'m str), &'m str>,
    targets: BTreeMap<&'m str, &'m str>,
    /// Names of methods that other types may have too: those of traits and of other crates.
    of_others: BTreeSet<&'m str>,
}

impl<'m> Known<'m> {
    fn of(modules: &Modules<'m>) -> Known<'m> {
        let mut all = Known::default();
        for (path, module) in modules.files() {
            let methods = &module.methods;
            for ((of, name), answer) in &methods.answers {
                all.methods.entry((of, name)).or_default().insert(path);
                all.names.entry(name).or_default().insert(path);
                all.answers.insert((of, name), answer);
            }
            for ((of, name), field) in &methods.fields {
                all.fields.insert((of, name), field);
            }
            for (of, target) in &methods.targets {
                all.targets.insert(of, target);
            }
            all.of_others
                .extend(methods.of_traits.iter().map(String::as_str));
        }
        all
    }

    /// The file of the method that is called, if it is one of the crate's.
    fn called(&self, from: &str, receiver: &Receiver, name: &str) -> Option<&'m str> {
        let owners = match self.type_of(receiver, 0) {
            Some(mut of) => {
                let mut owners = self.methods.get(&(of, name));
                // A pointer to a pointer ends somewhere.
                for _ in 0..3 {
                    if owners.is_none()
                        && let Some(target) = self.targets.get(of)
                    {
                        of = target;
                        owners = self.methods.get(&(of, name));
                    }
                }
                owners?
            }
            None => {
                let is_anyones =
                    STANDARD.split(' ').any(|known| known == name) || self.of_others.contains(name);
                self.names.get(name).filter(|_| !is_anyones)?
            }
        };
        // Types of the same name in several files: the one of the same file is meant.
        if owners.contains(from) {
            return None;
        }
        let only = (owners.len() == 1).then(|| owners.first().copied());
        only.flatten()
    }

    /// The name of the receiver's type, if the declarations tell it.
    fn type_of<'a>(&'a self, receiver: &'a Receiver, depth: usize) -> Option<&'a str> {
        if depth > 8 {
            return None;
        }
        match receiver {
            Receiver::Type(name) => Some(name),
            Receiver::Field(of, name) => {
                let of = self.type_of(of, depth + 1)?;
                let of = self.targets.get(of).copied().unwrap_or(of);
                self.fields.get(&(of, name.as_str())).copied()
            }
            Receiver::Answer(of, name) => {
                let of = self.type_of(of, depth + 1)?;
                self.answers.get(&(of, name.as_str())).copied()
            }
            Receiver::Unknown => None,
        }
    }
}
