//! Runs of neighbouring words, and what is stored for each: how often, and where last.

/// Words, pairs and triples: each has a structure of its own.
pub const NAMES: [&str; 3] = ["words", "pairs", "triples"];
/// So much of the text before a word is kept with it.
const CONTEXT_BYTES: usize = 56;
/// So much of a path is kept: its end.
const PLACE_BYTES: usize = 40;
/// More words than any context has; then the oldest are forgotten.
const KEPT_BYTES: usize = 4096;

/// The words read last.
#[derive(Clone, Debug, Default)]
pub struct Window {
    text: String,
    /// Where the words begin in it.
    starts: Vec<usize>,
}

impl Window {
    /// The next word.
    pub fn push(&mut self, word: &str) {
        if self.text.len() + word.len() >= KEPT_BYTES {
            let keep = self.starts[self.starts.len().saturating_sub(NAMES.len())];
            let keep = keep.min(self.context_from());
            self.text.drain(..keep);
            self.starts.retain(|&start| start >= keep);
            self.starts.iter_mut().for_each(|start| *start -= keep);
        }
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        self.starts.push(self.text.len());
        self.text.push_str(word);
    }

    /// The last `n` words with a space between them; `None` if there were not so many.
    pub fn gram(&self, n: usize) -> Option<&str> {
        let first = self.starts.len().checked_sub(n)?;
        self.text.get(*self.starts.get(first)?..)
    }

    /// The last words, as many as are to be stored.
    pub fn context(&self) -> &str {
        &self.text[self.context_from()..]
    }

    fn context_from(&self) -> usize {
        let least = self.text.len().saturating_sub(CONTEXT_BYTES);
        let at = self.starts.partition_point(|&start| start < least);
        self.starts.get(at).copied().unwrap_or(self.text.len())
    }
}

/// What is stored: the count in eight decimal digits (or more, if it takes them), so that
/// `terrace scan` shows it readably and counting up does not change its length; then where it was
/// seen last.
pub fn encode(count: u64, place: &str, context: &str) -> Vec<u8> {
    format!("{count:08} {place}: {context}").into_bytes()
}

/// The bytes that [`encode`] gives.
pub fn encoded_bytes(place: &str, context: &str) -> usize {
    8 + 1 + place.len() + 2 + context.len()
}

/// The count that is stored so, and the rest.
pub fn decode(bytes: &[u8]) -> Option<(u64, &str)> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (count, seen) = text.split_once(' ')?;
    let is_count = count.len() >= 8 && count.bytes().all(|b| b.is_ascii_digit());
    Some((count.parse().ok().filter(|_| is_count)?, seen))
}

/// The end of a path, cut where a folder begins if possible.
pub fn place(path: &std::path::Path) -> String {
    let path = path.to_string_lossy();
    if path.len() <= PLACE_BYTES {
        return path.into_owned();
    }
    let mut from = path.len() - PLACE_BYTES;
    while !path.is_char_boundary(from) {
        from += 1;
    }
    let end = &path[from..];
    end.split_once('/').map_or(end, |(_, rest)| rest).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_gives_the_last_words() {
        let mut window = Window::default();
        assert_eq!((window.gram(1), window.context()), (None, ""));
        window.push("one");
        window.push("two");
        assert_eq!(window.gram(1), Some("two"));
        assert_eq!(window.gram(2), Some("one two"));
        assert_eq!(window.gram(3), None);
        for n in 0..10_000 {
            window.push(&format!("w{n}"));
            assert!(window.context().len() <= CONTEXT_BYTES);
        }
        assert_eq!(window.gram(3), Some("w9997 w9998 w9999"));
        assert!(window.context().ends_with("w9998 w9999"));
        assert!(window.context().starts_with('w') && window.text.len() <= KEPT_BYTES);
        window.push(&"x".repeat(CONTEXT_BYTES + 1));
        assert_eq!(window.context(), "");
    }

    #[test]
    fn what_is_stored_leads_back() {
        for count in [0, 1, 99_999_999, 100_000_000, u64::MAX] {
            let value = encode(count, "a/b.md", "some words");
            assert_eq!(decode(&value), Some((count, "a/b.md: some words")));
        }
        assert_eq!(encode(7, "p", "c").len(), encoded_bytes("p", "c"));
        for bad in [
            &b""[..],
            b"123 x",
            b"+0000001 x",
            b"00000001",
            b"\xff0000000 x",
        ] {
            assert_eq!(decode(bad), None);
        }
    }

    #[test]
    fn places_are_the_ends_of_paths() {
        assert_eq!(place("short.md".as_ref()), "short.md");
        let long = format!("/a/very/long/folder/{}/book/chapter.html", "x".repeat(30));
        assert_eq!(place(long.as_ref()), "book/chapter.html");
        let one = "é".repeat(60);
        assert_eq!(place(one.as_ref()), "é".repeat(20));
    }
}
