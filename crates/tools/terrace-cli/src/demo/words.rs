//! The words of a text, in lower case, without the markup of HTML.

/// A longer word is none: it is data that happens to consist of letters.
const LONGEST: usize = 40;

/// Calls `visit` with each word in turn. Bytes that are no text separate words, as do all characters
/// that are no letters; an apostrophe within a word belongs to it.
pub fn words<E>(
    bytes: &[u8],
    html: bool,
    mut visit: impl FnMut(&str) -> Result<(), E>,
) -> Result<(), E> {
    let text = String::from_utf8_lossy(bytes);
    let mut word = String::new();
    let mut markup = Markup::default();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if html && markup.hides(c, rest.as_str()) {
            end(&mut word, &mut visit)?;
        } else if c.is_alphabetic() {
            word.extend(c.to_lowercase());
        } else if c == '\'' || c == '’' {
            if !word.is_empty() && rest.as_str().starts_with(char::is_alphabetic) {
                word.push('\'');
            }
        } else {
            end(&mut word, &mut visit)?;
        }
    }
    end(&mut word, &mut visit)
}

fn end<E>(word: &mut String, visit: &mut impl FnMut(&str) -> Result<(), E>) -> Result<(), E> {
    let result = if !word.is_empty() && word.len() <= LONGEST {
        visit(word)
    } else {
        Ok(())
    };
    word.clear();
    result
}

/// Where in the markup of HTML we are. Not a parser: good enough to leave out what nobody reads.
#[derive(Debug, Default)]
struct Markup {
    in_tag: bool,
    in_entity: u8,
    /// The end tag of a script or style sheet that we are in.
    until: Option<&'static str>,
}

impl Markup {
    /// Whether a character is markup; `rest` is what follows it.
    fn hides(&mut self, c: char, rest: &str) -> bool {
        if self.in_entity > 0 {
            self.in_entity -= 1;
            if c == ';' || !c.is_ascii_alphanumeric() && c != '#' {
                self.in_entity = 0;
            }
            return true;
        }
        if self.in_tag {
            self.in_tag = c != '>';
            return true;
        }
        match c {
            '<' if self.until.is_none_or(|until| starts_with(rest, until)) => {
                self.in_tag = true;
                self.until = [("script", "/script"), ("style", "/style")]
                    .into_iter()
                    .find(|(name, _)| starts_with(rest, name))
                    .map(|(_, until)| until);
                true
            }
            '&' if self.until.is_none()
                && rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '#') =>
            {
                // The longest entities in use are shorter than this.
                self.in_entity = 10;
                true
            }
            _ => self.until.is_some(),
        }
    }
}

fn starts_with(text: &str, name: &str) -> bool {
    text.get(..name.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str, html: bool) -> Vec<String> {
        let mut all = Vec::new();
        let visit = |word: &str| -> Result<(), ()> {
            all.push(word.to_owned());
            Ok(())
        };
        words(text.as_bytes(), html, visit).unwrap();
        all
    }

    #[test]
    fn words_are_letters_in_lower_case() {
        assert_eq!(
            list("It's the Ärger's 2nd 'time'.", false),
            ["it's", "the", "ärger's", "nd", "time"]
        );
        assert_eq!(list("", false), [""; 0]);
        assert_eq!(list(&"x".repeat(41), false), [""; 0]);
        assert_eq!(list("a<b>c", false), ["a", "b", "c"]);
    }

    #[test]
    fn markup_is_left_out() {
        let html = "<p class=\"big\">One &amp; <b>two</b>&nbsp;three<script>if (a < b) {}</script>four\
                    <STYLE>p { x: y }</STYLE> five & six</p>";
        assert_eq!(
            list(html, true),
            ["one", "two", "three", "four", "five", "six"]
        );
    }

    #[test]
    fn broken_markup_and_bytes_do_no_harm() {
        assert_eq!(list("one <two", true), ["one"]);
        assert_eq!(list("<script>never closed", true), [""; 0]);
        assert_eq!(
            list("a &unknownentitythatislong b", true).last().unwrap(),
            "b"
        );
        let mut all = Vec::new();
        let visit = |word: &str| -> Result<(), ()> {
            all.push(word.to_owned());
            Ok(())
        };
        words(b"one\xff\xfetwo \xc3", false, visit).unwrap();
        assert_eq!(all, ["one", "two"]);
    }

    #[test]
    fn an_error_of_the_visitor_ends_it() {
        assert_eq!(words(b"one two", false, |_| Err("full")), Err("full"));
    }
}
