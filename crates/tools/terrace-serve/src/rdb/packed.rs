//! The small forms of collections, each in one string: listpacks, ziplists, zipmaps, sets of numbers.
//!
//! Invariants: any bytes are taken; every step goes forward, so an end is reached; nothing outside the string is read.

use super::source::{Got, broken};

/// Elements of one string: some hundreds by default, and each may take twenty times its bytes in memory.
const MOST: usize = 1 << 20;

fn add(all: &mut Vec<Vec<u8>>, element: Vec<u8>) -> Got {
    if all.len() == MOST {
        return broken("a packed collection has too many elements");
    }
    all.push(element);
    Ok(())
}

fn int<const N: usize>(bytes: &[u8], at: usize) -> Got<[u8; N]> {
    match bytes
        .get(at..at + N)
        .and_then(|b| <[u8; N]>::try_from(b).ok())
    {
        Some(bytes) => Ok(bytes),
        None => broken("a packed collection breaks off"),
    }
}

fn part(bytes: &[u8], at: usize, length: usize) -> Got<Vec<u8>> {
    let part = at.checked_add(length).and_then(|end| bytes.get(at..end));
    match part {
        Some(part) => Ok(part.to_vec()),
        None => broken("a packed collection breaks off"),
    }
}

/// A whole number of three bytes, the lowest first.
fn three(bytes: [u8; 3]) -> i64 {
    i64::from(i32::from_le_bytes([0, bytes[0], bytes[1], bytes[2]]) >> 8)
}

fn text(number: i64) -> Vec<u8> {
    number.to_string().into_bytes()
}

/// The end of a packed collection.
const END: u8 = 0xFF;

/// The elements of a listpack.
pub fn listpack(bytes: &[u8]) -> Got<Vec<Vec<u8>>> {
    let mut all = Vec::new();
    let mut at = 6;
    loop {
        let first = int::<1>(bytes, at)?[0];
        // What it is, and its bytes without those of its length behind it.
        let (element, length) = match first {
            END => return Ok(all),
            0..=0x7F => (text(first.into()), 1),
            0x80..=0xBF => {
                let length = usize::from(first & 0x3F);
                (part(bytes, at + 1, length)?, 1 + length)
            }
            0xC0..=0xDF => {
                let number = i64::from(u16::from_be_bytes(int(bytes, at)?) & 0x1FFF);
                let number = if number >= 1 << 12 {
                    number - (1 << 13)
                } else {
                    number
                };
                (text(number), 2)
            }
            0xE0..=0xEF => {
                let length = usize::from(u16::from_be_bytes(int(bytes, at)?) & 0xFFF);
                (part(bytes, at + 2, length)?, 2 + length)
            }
            0xF0 => {
                let length = u32::from_le_bytes(int(bytes, at + 1)?) as usize;
                (part(bytes, at + 5, length)?, 5 + length)
            }
            0xF1 => (text(i16::from_le_bytes(int(bytes, at + 1)?).into()), 3),
            0xF2 => (text(three(int(bytes, at + 1)?)), 4),
            0xF3 => (text(i32::from_le_bytes(int(bytes, at + 1)?).into()), 5),
            0xF4 => (text(i64::from_le_bytes(int(bytes, at + 1)?)), 9),
            _ => return broken("an element of a listpack of no known form"),
        };
        add(&mut all, element)?;
        at += length + length_bytes(length);
    }
}

/// Bytes that the length of an element takes behind it.
pub fn length_bytes(length: usize) -> usize {
    match length {
        0..=127 => 1,
        128..=16_382 => 2,
        16_383..=2_097_150 => 3,
        2_097_151..=268_435_454 => 4,
        _ => 5,
    }
}

/// The elements of a ziplist.
pub fn ziplist(bytes: &[u8]) -> Got<Vec<Vec<u8>>> {
    let mut all = Vec::new();
    let mut at = 10;
    loop {
        match int::<1>(bytes, at)?[0] {
            END => return Ok(all),
            // The length of the element before it.
            0xFE => at += 5,
            _ => at += 1,
        }
        let first = int::<1>(bytes, at)?[0];
        at += 1;
        let (element, length) = match first {
            0..=0x3F => {
                let length = usize::from(first);
                (part(bytes, at, length)?, length)
            }
            0x40..=0x7F => {
                let length = usize::from(first & 0x3F) << 8 | usize::from(int::<1>(bytes, at)?[0]);
                (part(bytes, at + 1, length)?, 1 + length)
            }
            0x80 => {
                let length = u32::from_be_bytes(int(bytes, at)?) as usize;
                (part(bytes, at + 4, length)?, 4 + length)
            }
            0xC0 => (text(i16::from_le_bytes(int(bytes, at)?).into()), 2),
            0xD0 => (text(i32::from_le_bytes(int(bytes, at)?).into()), 4),
            0xE0 => (text(i64::from_le_bytes(int(bytes, at)?)), 8),
            0xF0 => (text(three(int(bytes, at)?)), 3),
            0xFE => (text(i64::from(int::<1>(bytes, at)?[0] as i8)), 1),
            0xF1..=0xFD => (text(i64::from(first & 0xF) - 1), 0),
            _ => return broken("an element of a ziplist of no known form"),
        };
        add(&mut all, element)?;
        at += length;
    }
}

/// The fields and values of a zipmap.
pub fn zipmap(bytes: &[u8]) -> Got<Vec<Vec<u8>>> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    let mut at = 1;
    loop {
        let is_value = all.len() % 2 == 1;
        let length = match int::<1>(bytes, at)?[0] {
            END if is_value => return broken("a field without a value"),
            END => return Ok(all),
            0xFE => {
                at += 5;
                u32::from_le_bytes(int(bytes, at - 4)?) as usize
            }
            short => {
                at += 1;
                usize::from(short)
            }
        };
        let mut free = 0;
        if is_value {
            free = usize::from(int::<1>(bytes, at)?[0]);
            at += 1;
        }
        add(&mut all, part(bytes, at, length)?)?;
        at += length + free;
    }
}

/// The members of a set of whole numbers.
pub fn numbers(bytes: &[u8]) -> Got<Vec<Vec<u8>>> {
    let wide = u32::from_le_bytes(int(bytes, 0)?);
    let many = u32::from_le_bytes(int(bytes, 4)?) as usize;
    let rest = bytes.get(8..).unwrap_or_default();
    if ![2, 4, 8].contains(&wide) || many.checked_mul(wide as usize) != Some(rest.len()) {
        return broken("a set of numbers of no known form");
    }
    if many > MOST {
        return broken("a packed collection has too many elements");
    }
    let number = |bytes: &[u8]| match *bytes {
        [a, b] => i64::from(i16::from_le_bytes([a, b])),
        [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => i64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => 0,
    };
    Ok(rest
        .chunks(wide as usize)
        .map(|b| text(number(b)))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_are_taken() {
        let mut state = 1u64;
        let mut bytes = vec![0u8; 64];
        for _ in 0..20_000 {
            for byte in &mut bytes {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                *byte = (state >> 56) as u8;
            }
            let _ = (listpack(&bytes), ziplist(&bytes), zipmap(&bytes));
            bytes[..4].copy_from_slice(&2u32.to_le_bytes());
            bytes[4..8].copy_from_slice(&28u32.to_le_bytes());
            assert_eq!(numbers(&bytes).unwrap().len(), 28);
        }
    }

    #[test]
    fn there_are_not_more_elements_than_may_be() {
        let pack = |many: usize| [&[0; 6][..], &[1_u8, 1].repeat(many), &[END]].concat();
        assert_eq!(listpack(&pack(MOST)).unwrap().len(), MOST);
        assert!(listpack(&pack(MOST + 1)).is_err());
        let list = |many: usize| [&[0; 10][..], &[0_u8, 0xF1].repeat(many), &[END]].concat();
        assert!(ziplist(&list(MOST + 1)).is_err());
        let map = [&[0][..], &[0_u8, 0, 0].repeat(MOST / 2 + 1), &[END]].concat();
        assert!(zipmap(&map).is_err());
    }
}
