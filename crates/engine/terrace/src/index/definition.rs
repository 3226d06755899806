//! What an index is: its name, whether it is unique, and where its keys come from.
//!
//! Invariant: the text of a source leads back to it, and to no other; it is what the catalog keeps.

use std::ops::Range;
use std::sync::Arc;

use terrace_base::{Error, Result, StructureId};

use crate::kinds::spec::check_name;

/// Longest text of a source, in bytes: its catalog entry must fit the smallest page four times.
pub const MAX_SOURCE_BYTES: usize = 255;

/// How the catalog names a function of the program, and one that finds any number of keys.
const FUNCTION: &str = "function";
const FUNCTION_OF_MANY: &str = "each:function";

/// The keys that a function finds in a row, or what is wrong with the row.
pub type Extractor = Arc<dyn Fn(&[u8]) -> std::result::Result<Vec<Vec<u8>>, String> + Send + Sync>;

/// Where in a row the key of an index is, as far as it can be said without a function; kept in the
/// catalog, so that a table with such indexes opens without naming them. Its text (`Display`,
/// `FromStr`) is `bytes:4..12`, `json:/address/city`, `json-or-empty:/address/city`, `csv:3` or `csv:3:;`; `number:` before one of JSON or CSV,
/// and `each:` before one of JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySource(pub(crate) Place);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// These bytes of the row.
    Bytes(Range<usize>),
    /// What an RFC 6901 pointer names in a row of JSON.
    Json(String),
    /// The same, an empty text among the keys.
    JsonOrEmpty(String),
    /// A column, counted from 1, of a row of separated values.
    Csv(u16, u8),
    /// What is at this place, as a number.
    Number(Box<Place>),
    /// Each element of the array at this place.
    Each(Box<Place>),
}

impl KeySource {
    /// The bytes of the row from `range.start` to before `range.end`. A shorter row is not indexed.
    pub fn bytes(range: Range<usize>) -> KeySource {
        KeySource(Place::Bytes(range))
    }

    /// What a JSON pointer (RFC 6901) names in a row that is JSON. A string gives its text, a number
    /// or a boolean its JSON text; a row without it, or with null or an empty text there, is not indexed; an
    /// array or an object there, and a row that is no JSON, are errors of the write.
    pub fn json_pointer(pointer: impl Into<String>) -> KeySource {
        KeySource(Place::Json(pointer.into()))
    }

    /// The same, but an empty text is a key like others: under a unique index one row may have it.
    pub fn json_pointer_or_empty(pointer: impl Into<String>) -> KeySource {
        KeySource(Place::JsonOrEmpty(pointer.into()))
    }

    /// A column, counted from 1, of a row whose fields `delimiter` separates, with quotes as in CSV.
    /// A row with fewer columns, or with nothing in this one, is not indexed.
    pub fn csv_column(column: u16, delimiter: u8) -> KeySource {
        KeySource(Place::Csv(column, delimiter))
    }

    /// What is there as a decimal number of any length, in the order of numbers: keys are what
    /// [`crate::encode::number`] makes of it. A row with something else there is an error of the write. For
    /// JSON and CSV.
    ///
    /// ```
    /// use terrace::{Index, KeySource, TableOptions, encode};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = terrace::Database::open(dir.path(), terrace::Options::new().memory(16 << 20))?;
    /// let age = Index::on("age", KeySource::json_pointer("/age").number());
    /// let people = db.table_with("people", TableOptions::new().index(age))?;
    /// people.put("alice", r#"{"age":9}"#)?;
    /// people.put("bob", r#"{"age":10.5}"#)?;
    /// let ten = encode::number("10").unwrap();
    /// let older: Vec<_> = people.index("age")?.range(ten..)?.collect::<Result<_, _>>()?;
    /// assert_eq!(older.len(), 1);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn number(self) -> KeySource {
        KeySource(match self.0 {
            Place::Number(_) => self.0,
            place => Place::Number(Box::new(place)),
        })
    }

    /// Each element of the array that is there: a row has as many keys as there are different ones in it. An element
    /// that is null, or an empty text (but for [`KeySource::json_pointer_or_empty`]), is none; what is no array is one
    /// key, as without this. For JSON.
    ///
    /// ```
    /// use terrace::{Index, KeySource, TableOptions};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = terrace::Database::open(dir.path(), terrace::Options::new().memory(16 << 20))?;
    /// let tag = Index::on("tag", KeySource::json_pointer("/tags").each());
    /// let posts = db.table_with("posts", TableOptions::new().index(tag))?;
    /// posts.put("1", r#"{"tags":["rust","storage"]}"#)?;
    /// posts.put("2", r#"{"tags":["rust"]}"#)?;
    /// assert_eq!(posts.index("tag")?.get("rust")?.count(), 2);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn each(self) -> KeySource {
        KeySource(match self.0 {
            Place::Each(_) => self.0,
            // Each number, not the number of each.
            place => Place::Each(Box::new(place)),
        })
    }

    /// Refuses what no row can fit or the catalog cannot keep.
    pub(crate) fn check(&self) -> Result<()> {
        let bad = |what: &str| Err(Error::invalid(format!("the source {self} of a key {what}")));
        match &self.0 {
            Place::Bytes(range) if range.start >= range.end => bad("holds no bytes"),
            Place::Bytes(range) if range.len() > terrace_base::MAX_KEY_BYTES => {
                bad("is longer than a key may be")
            }
            Place::Json(pointer) | Place::JsonOrEmpty(pointer)
                if !(pointer.is_empty() || pointer.starts_with('/')) =>
            {
                bad("is no JSON pointer: one begins with /")
            }
            Place::Number(place) if !matches!(**place, Place::Json(_) | Place::Csv(..)) => {
                bad("holds no text of a number: that json:/POINTER and csv:COLUMN have")
            }
            Place::Each(place) if !is_json(place) => {
                bad("has no elements: those json:/POINTER may have, also as numbers")
            }
            Place::Number(place) | Place::Each(place) => {
                KeySource((**place).clone()).check()?;
                match self.to_string().len() > MAX_SOURCE_BYTES {
                    true => bad(&format!("is longer than {MAX_SOURCE_BYTES} bytes")),
                    false => Ok(()),
                }
            }
            Place::Csv(0, _) => bad("names no column: they are counted from 1"),
            Place::Csv(_, delimiter) if !is_delimiter(*delimiter) => {
                bad("has a delimiter that cannot be one: give a printing ASCII character or a tab")
            }
            _ if self.to_string().len() > MAX_SOURCE_BYTES => {
                bad(&format!("is longer than {MAX_SOURCE_BYTES} bytes"))
            }
            _ => Ok(()),
        }
    }
}

fn is_json(place: &Place) -> bool {
    match place {
        Place::Json(_) | Place::JsonOrEmpty(_) => true,
        Place::Number(place) => matches!(**place, Place::Json(_)),
        _ => false,
    }
}

fn is_delimiter(byte: u8) -> bool {
    (byte.is_ascii_graphic() && byte != b'"') || byte == b' ' || byte == b'\t'
}

impl std::fmt::Display for KeySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Place::Number(place) => write!(f, "number:{}", KeySource((**place).clone())),
            Place::Each(place) => write!(f, "each:{}", KeySource((**place).clone())),
            Place::Bytes(range) => write!(f, "bytes:{}..{}", range.start, range.end),
            Place::Json(pointer) => write!(f, "json:{pointer}"),
            Place::JsonOrEmpty(pointer) => write!(f, "json-or-empty:{pointer}"),
            Place::Csv(column, b',') => write!(f, "csv:{column}"),
            Place::Csv(column, b'\t') => write!(f, "csv:{column}:\\t"),
            Place::Csv(column, delimiter) => {
                write!(f, "csv:{column}:{}", delimiter.escape_ascii())
            }
        }
    }
}

impl std::str::FromStr for KeySource {
    type Err = Error;

    fn from_str(text: &str) -> Result<KeySource> {
        if text.len() > MAX_SOURCE_BYTES {
            let what = format!("the source of a key is longer than {MAX_SOURCE_BYTES} bytes");
            return Err(Error::invalid(what));
        }
        let place = match text.split_once(':') {
            Some(("number", rest)) => {
                let inner: KeySource = rest.parse()?;
                // One source has one text.
                (!matches!(inner.0, Place::Number(_))).then(|| Place::Number(Box::new(inner.0)))
            }
            Some(("each", rest)) => {
                let inner: KeySource = rest.parse()?;
                (!matches!(inner.0, Place::Each(_))).then(|| Place::Each(Box::new(inner.0)))
            }
            Some(("bytes", rest)) => rest
                .split_once("..")
                .and_then(|(start, end)| Some(Place::Bytes(number(start)?..number(end)?))),
            Some(("json", pointer)) => Some(Place::Json(pointer.into())),
            Some(("json-or-empty", pointer)) => Some(Place::JsonOrEmpty(pointer.into())),
            Some(("csv", rest)) => csv_place(rest),
            _ => None,
        };
        let source = place.map(KeySource).ok_or_else(|| {
            Error::invalid(format!(
                "{text:?} is no source of a key; give bytes:FROM..TO, json:/POINTER, json-or-empty:/POINTER, csv:COLUMN or csv:COLUMN:DELIMITER; number: before one of json and csv, each: before one of json"
            ))
        })?;
        source.check()?;
        Ok(source)
    }
}

/// A number as it is written: one number has one text.
fn number(text: &str) -> Option<usize> {
    let number: usize = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

fn csv_place(rest: &str) -> Option<Place> {
    let (column, delimiter) = match rest.split_once(':') {
        None => (rest, b','),
        Some((_, ",")) => return None,
        Some((column, "\\t")) => (column, b'\t'),
        Some((column, "\\\\")) => (column, b'\\'),
        Some((column, "\\'")) => (column, b'\''),
        Some((column, text)) => match text.as_bytes() {
            [delimiter] if !matches!(delimiter, b'\\' | b'\'' | b'\t') => (column, *delimiter),
            _ => return None,
        },
    };
    Some(Place::Csv(u16::try_from(number(column)?).ok()?, delimiter))
}

/// Where the keys of an index come from, as the catalog knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// A function that the program has to bring along.
    Function,
    /// One that finds any number of keys.
    FunctionOfMany,
    /// This.
    Declared(KeySource),
}

impl std::fmt::Display for Stored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Stored::Function => f.write_str(FUNCTION),
            Stored::FunctionOfMany => f.write_str(FUNCTION_OF_MANY),
            Stored::Declared(source) => source.fmt(f),
        }
    }
}

impl Stored {
    /// From its text; `None` for what was never written.
    pub fn parse(text: &str) -> Option<Stored> {
        match text {
            FUNCTION => return Some(Stored::Function),
            FUNCTION_OF_MANY => return Some(Stored::FunctionOfMany),
            _ => (),
        }
        let source: KeySource = text.parse().ok()?;
        (source.to_string() == text).then_some(Stored::Declared(source))
    }
}

impl Stored {
    /// Whether a row may have several keys.
    pub fn is_of_many(&self) -> bool {
        match self {
            Stored::Function => false,
            Stored::FunctionOfMany => true,
            Stored::Declared(KeySource(place)) => matches!(place, Place::Each(_)),
        }
    }
}

/// What the catalog knows of an index beside name and place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// Its table.
    pub table: StructureId,
    /// Whether two rows may not have the same key.
    pub unique: bool,
    /// Where its keys come from.
    pub source: Stored,
}

/// An index, as it is to be or is expected to be.
#[derive(Clone)]
#[must_use = "it is an index only once a table has it"]
pub struct Index {
    pub(crate) name: String,
    pub(crate) unique: bool,
    pub(crate) source: Stored,
    pub(crate) function: Option<Extractor>,
}

impl Index {
    /// An index whose keys a function finds in the rows: `Ok(None)` for a row that is not to be
    /// indexed, `Err` for one that must not be written. The function gives the same key for the same
    /// row each time, and does not use the database. The catalog keeps that there is one, so every
    /// program that writes to the table has to name it when it opens it; until the database is
    /// closed, the one that was named first counts.
    pub fn by(
        name: impl Into<String>,
        key: impl Fn(&[u8]) -> std::result::Result<Option<Vec<u8>>, String> + Send + Sync + 'static,
    ) -> Index {
        Index {
            name: name.into(),
            unique: false,
            source: Stored::Function,
            function: Some(Arc::new(move |row| Ok(key(row)?.into_iter().collect()))),
        }
    }

    /// As [`Index::by`], but a row has as many keys as the function finds: tags, words, cells of a map. A key that it
    /// finds twice is one. Under a unique index none of them may be another row's.
    ///
    /// ```
    /// use terrace::{Index, TableOptions};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = terrace::Database::open(dir.path(), terrace::Options::new().memory(16 << 20))?;
    /// let words = Index::many("word", |row| {
    ///     let text = String::from_utf8_lossy(row).to_lowercase();
    ///     Ok(text.split_whitespace().map(|word| word.as_bytes().to_vec()).collect())
    /// });
    /// let notes = db.table_with("notes", TableOptions::new().index(words))?;
    /// notes.put("1", "Buy milk and more milk")?;
    /// notes.put("2", "Milk is white")?;
    /// assert_eq!(notes.index("word")?.get("milk")?.count(), 2);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn many(
        name: impl Into<String>,
        keys: impl Fn(&[u8]) -> std::result::Result<Vec<Vec<u8>>, String> + Send + Sync + 'static,
    ) -> Index {
        Index {
            name: name.into(),
            unique: false,
            source: Stored::FunctionOfMany,
            function: Some(Arc::new(keys)),
        }
    }

    /// An index whose keys are at a place that the catalog can keep.
    pub fn on(name: impl Into<String>, source: KeySource) -> Index {
        Index {
            name: name.into(),
            unique: false,
            source: Stored::Declared(source),
            function: None,
        }
    }

    /// The same, but two rows may not have the same key: a write that would make it so is an error.
    pub fn unique(mut self) -> Index {
        self.unique = true;
        self
    }

    /// Where its keys come from: the text of a [`KeySource`], `function`, or `each:function` for one of many keys.
    pub fn source(&self) -> String {
        self.source.to_string()
    }

    /// What says whether it is another one: unique or not, and the source.
    pub(crate) fn kind(&self) -> String {
        kind(self.unique, &self.source)
    }
}

/// An index that the catalog can keep, from its text: `city=csv:3`, `email=unique:json:/email`. The
/// name ends at the first `=`.
impl std::str::FromStr for Index {
    type Err = Error;

    fn from_str(text: &str) -> Result<Index> {
        let (name, source) = text.split_once('=').ok_or_else(|| {
            Error::invalid(format!(
                "{text:?} is no index; give NAME=SOURCE or NAME=unique:SOURCE, as in city=csv:3"
            ))
        })?;
        check_name(name)?;
        Ok(match source.strip_prefix("unique:") {
            Some(source) => Index::on(name, source.parse()?).unique(),
            None => Index::on(name, source.parse()?),
        })
    }
}

/// An index in words, beside its name.
pub(crate) fn kind(unique: bool, source: &Stored) -> String {
    let unique = if unique { "unique, " } else { "" };
    match source {
        Stored::Function => format!("{unique}by a function"),
        Stored::FunctionOfMany => format!("{unique}by a function of many keys"),
        Stored::Declared(source) => format!("{unique}on {source}"),
    }
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Index({:?}, {})", self.name, self.kind())
    }
}

/// An index of a table.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct IndexInfo {
    /// Its name.
    pub name: String,
    /// Whether two rows may not have the same key.
    pub unique: bool,
    /// Where its keys come from, as [`Index::source`] says it.
    pub source: String,
}

impl IndexInfo {
    /// Whether its keys come from a function of the program.
    pub fn is_by_function(&self) -> bool {
        matches!(&self.source[..], FUNCTION | FUNCTION_OF_MANY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_source_leads_back_to_it() {
        let sources = [
            KeySource::bytes(0..4),
            KeySource::bytes(10..11),
            KeySource::json_pointer(""),
            KeySource::json_pointer("/a:b/ü"),
            KeySource::csv_column(1, b','),
            KeySource::csv_column(65535, b'\t'),
            KeySource::csv_column(2, b';'),
            KeySource::csv_column(2, b':'),
            KeySource::csv_column(2, b'\\'),
            KeySource::csv_column(2, b'\''),
            KeySource::csv_column(2, b' '),
            KeySource::csv_column(2, b' ').number(),
            KeySource::json_pointer("/age").number().number(),
            KeySource::json_pointer("/tags").each().each(),
            KeySource::json_pointer_or_empty("/tags").each(),
            KeySource::json_pointer("/ages").number().each(),
        ];
        for source in sources {
            let text = source.to_string();
            assert_eq!(text.parse::<KeySource>().unwrap(), source, "{text}");
            assert_eq!(Stored::parse(&text), Some(Stored::Declared(source)));
        }
        assert_eq!(Stored::parse("function"), Some(Stored::Function));
        assert_eq!(Stored::parse("each:function"), Some(Stored::FunctionOfMany));
    }

    #[test]
    fn an_index_has_a_text() {
        let said = |text: &str| text.parse::<Index>().map(|index| format!("{index:?}"));
        assert_eq!(said("city=csv:3").unwrap(), "Index(\"city\", on csv:3)");
        assert_eq!(
            said("e=unique:json:/a=b").unwrap(),
            "Index(\"e\", unique, on json:/a=b)"
        );
        for bad in [
            "city",
            "=csv:3",
            "city=",
            "city=unique",
            "city=function",
            " c=csv:3",
        ] {
            assert!(said(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_no_source_is_refused() {
        let long = format!("json:/{}", "x".repeat(255));
        let deep = "each:".repeat(1_000_000);
        for bad in [
            "",
            "bytes",
            "bytes:4",
            "bytes:4..4",
            "bytes:5..4",
            "bytes:0..5000",
            "bytes:01..4",
            "bytes:-1..4",
            "json:a",
            "csv:",
            "csv:0",
            "csv:+1",
            "csv:70000",
            "csv:1:",
            "csv:1:ab",
            "csv:1:\"",
            "csv:1:\u{1}",
            "csv:1:,",
            "xml:/a",
            "number:",
            "number:bytes:0..4",
            "number:number:csv:1",
            "number:json-or-empty:/a",
            "number:each:json:/a",
            "each:each:json:/a",
            "each:csv:1",
            "each:number:csv:1",
            "each:bytes:0..4",
            "each:function",
            "function",
            &long,
            &deep,
        ] {
            assert!(bad.parse::<KeySource>().is_err(), "{bad:?}");
        }
    }
}
