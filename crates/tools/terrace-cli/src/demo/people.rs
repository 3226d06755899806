//! The data and the work of the demonstration: people with a profile each, and who of them visits. All of it
//! follows from numbers, so it is the same on every machine, and what a store answers can be checked.

use anyhow::{Result, bail};
use terrace_bench::Distribution;
use terrace_bench::distribution::Chooser;
use terrace_bench::rng::{Rng, mix};

/// Visits come in groups of this size: the counts of a group are durable together.
pub const GROUP: u64 = 1000;
/// At most this many people can have different names.
pub const MOST_PEOPLE: u64 = 1 << 24;
/// The random numbers of every run are these.
const SEED: u64 = 7;
/// In the order of the alphabet, so that names are in the order of people's numbers.
const CONSONANTS: &[u8; 16] = b"bdfghklmnprstvwz";
const VOWELS: &[u8; 4] = b"aeio";
/// A count has this many digits in front of the profile.
const DIGITS: usize = 8;

/// Who visits.
pub struct People {
    /// How many there are.
    pub count: u64,
    chooser: Chooser,
}

/// One person comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Whose profile is read.
    pub person: u64,
    /// Whether the visit is counted in it, too.
    pub counts: bool,
}

/// A person's key and the profile behind the count.
#[derive(Default)]
pub struct Person {
    pub key: Vec<u8>,
    pub text: Vec<u8>,
}

impl People {
    /// This many people, up to [`MOST_PEOPLE`], who visit as the distribution says.
    pub fn new(count: u64, distribution: Distribution) -> People {
        People {
            count,
            chooser: Chooser::new(distribution, count, SEED),
        }
    }

    /// The visits of the group with this number.
    pub fn visits(&self, group: u64) -> impl Iterator<Item = Visit> {
        let mut rng = Rng::new(mix(SEED ^ group.wrapping_add(1)));
        (0..GROUP).map(move |_| Visit {
            person: self.chooser.record(&mut rng, 0),
            counts: rng.bits() & 1 == 1,
        })
    }

    /// Writes down the person with this number. Keys are in the order of numbers.
    pub fn write(&self, number: u64, person: &mut Person) {
        let Person { key, text } = person;
        key.clear();
        text.clear();
        let place = number * (MOST_PEOPLE / self.count.max(1));
        name(key, place >> 12);
        key.push(b'.');
        name(key, place);
        let mut rng = Rng::new(mix(SEED ^ number));
        let bits = rng.bits();
        text.extend_from_slice(key);
        text.extend_from_slice(b"@");
        name(text, bits);
        let house = bits >> 24 & 255;
        text.extend_from_slice(format!(".example; {house} ").as_bytes());
        name(text, bits >> 12);
        text.extend_from_slice(b" road; likes");
        for _ in 0..4 + rng.below(8) {
            text.push(b' ');
            name(text, rng.bits());
        }
    }

    /// An error if this is not what was written for the person; else the count in it.
    pub fn check(&self, number: u64, person: &mut Person, value: Option<&[u8]>) -> Result<u64> {
        self.write(number, person);
        let count = value.and_then(|value| decode(value, &person.text));
        let Some(count) = count else {
            let shown = value.map_or("nothing".into(), crate::text::escape);
            bail!(
                "the profile of {} came back as {shown}, which was never written: this is a defect of the store",
                crate::text::escape(&person.key)
            );
        };
        Ok(count)
    }
}

/// Two syllables, of the lowest twelve bits.
fn name(text: &mut Vec<u8>, bits: u64) {
    for shift in [6, 0] {
        let syllable = (bits >> shift & 63) as usize;
        text.push(CONSONANTS[syllable / VOWELS.len()]);
        text.push(VOWELS[syllable % VOWELS.len()]);
    }
}

/// A profile with its count in front.
pub fn encode(count: u64, text: &[u8]) -> Vec<u8> {
    let mut value = format!("{count:0DIGITS$} ").into_bytes();
    value.extend_from_slice(text);
    value
}

/// The count in front of this profile; none, if it is something else.
fn decode(value: &[u8], text: &[u8]) -> Option<u64> {
    let (digits, rest) = value.split_at_checked(DIGITS)?;
    let count = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (rest.strip_prefix(b" ")? == text).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: Distribution = Distribution::Hotspot {
        records: 0.03,
        accesses: 0.5,
    };

    #[test]
    fn names_are_different_and_in_order() {
        for count in [1, 1000, 5000] {
            let people = People::new(count, HALF);
            let (mut last, mut person) = (Vec::new(), Person::default());
            for number in 0..count {
                people.write(number, &mut person);
                assert!(person.key > last, "{number} of {count}");
                last.clone_from(&person.key);
                let value = encode(number, &person.text);
                let read = people.check(number, &mut person, Some(&value));
                assert_eq!(read.unwrap(), number);
            }
        }
        let mut person = Person::default();
        People::new(MOST_PEOPLE, HALF).write(MOST_PEOPLE - 1, &mut person);
        assert_eq!(person.key, b"zozo.zozo");
    }

    #[test]
    fn another_profile_is_an_error_that_shows_it() {
        let people = People::new(100, HALF);
        let mut person = Person::default();
        people.write(7, &mut person);
        let value = encode(3, &person.text);
        for (number, value) in [
            (8, &value[..]),
            (7, &value[1..]),
            (7, b""),
            (7, b"0000000x "),
        ] {
            let error = people.check(number, &mut person, Some(value)).unwrap_err();
            assert!(error.to_string().contains("never written"), "{error}");
        }
        let error = people.check(7, &mut person, None).unwrap_err();
        assert!(error.to_string().contains("nothing"), "{error}");
    }

    #[test]
    fn a_group_is_the_same_each_time_and_unlike_the_next() {
        let people = People::new(5000, HALF);
        let group = |number| people.visits(number).collect::<Vec<_>>();
        assert_eq!(group(3), group(3));
        assert_ne!(group(3), group(4));
        let counted = group(3).iter().filter(|visit| visit.counts).count();
        assert!((400..600).contains(&counted), "{counted}");
    }
}
