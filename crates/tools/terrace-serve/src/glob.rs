//! Patterns of keys and channels: `*`, `?`, `[a-z]`, `[^a]` and `\` before a character, as Redis has them.
//!
//! Invariant: the time is bounded by pattern times text: of several stars only the last one is tried again.

/// Whether a text fits a pattern.
pub fn fits(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        let step = match pattern.get(p) {
            Some(b'*') => {
                star = Some((p + 1, t));
                p += 1;
                continue;
            }
            None if t == text.len() => return true,
            None => None,
            Some(_) if t == text.len() => None,
            Some(_) => one(&pattern[p..], text[t]),
        };
        match (step, star) {
            (Some(length), _) => {
                p += length;
                t += 1;
            }
            (None, Some((after, from))) if from < text.len() => {
                star = Some((after, from + 1));
                (p, t) = (after, from + 1);
            }
            _ => return false,
        }
    }
}

/// The length of the first part of a pattern, if it fits the byte.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern[0] {
        b'?' => Some(1),
        b'\\' if pattern.len() > 1 => (pattern[1] == byte).then_some(2),
        b'[' => {
            let mut at = 1;
            let negated = pattern.get(at) == Some(&b'^');
            at += usize::from(negated);
            let mut found = false;
            loop {
                match pattern.get(at) {
                    // A bracket that is not closed ends with the pattern.
                    None => break,
                    Some(b']') => {
                        at += 1;
                        break;
                    }
                    Some(b'\\') if at + 1 < pattern.len() => {
                        found |= pattern[at + 1] == byte;
                        at += 2;
                    }
                    Some(&low) if pattern.get(at + 1) == Some(&b'-') && at + 2 < pattern.len() => {
                        let high = pattern[at + 2];
                        found |= (low.min(high)..=low.max(high)).contains(&byte);
                        at += 3;
                    }
                    Some(&same) => {
                        found |= same == byte;
                        at += 1;
                    }
                }
            }
            (found != negated).then_some(at)
        }
        same => (same == byte).then_some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_in_redis() {
        for (pattern, text, fit) in [
            ("*", "", true),
            ("*", "abc", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h*llo", "heeeello", true),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("a\\*b", "a*b", true),
            ("a\\*b", "axb", false),
            ("*a*b*c", "xxaxxbxxc", true),
            ("*a*b*c", "xxaxxbxx", false),
            ("", "", true),
            ("", "a", false),
            ("a*", "b", false),
            ("[", "[", false),
        ] {
            assert_eq!(
                fits(pattern.as_bytes(), text.as_bytes()),
                fit,
                "{pattern} {text}"
            );
        }
        let many = "a*".repeat(50) + "b";
        assert!(!fits(many.as_bytes(), "a".repeat(5000).as_bytes()));
    }
}
