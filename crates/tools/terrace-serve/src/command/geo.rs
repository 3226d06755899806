//! Places on the earth, as members of a sorted set whose scores are cells of 52 bits.
//!
//! Source: geohashes, with the range of latitudes and the radius of the earth that Redis has, so that scores,
//! places and distances are the same.

use super::call::Call;
use super::sorted::add::{put_member, score};
use super::sorted::find::store_members;
use super::sorted::range::{Members, Part, RangeLimit, each};
use crate::stop::{NOT_FLOAT, Run, SYNTAX, Stop, refuse};
use crate::store::codec::{Head, Kind};
use crate::text::parse_f64;

/// Bits of a cell for each of both directions.
const BITS: u32 = 26;
const LONGITUDES: (f64, f64) = (-180.0, 180.0);
/// Latitudes of the Mercator projection.
const LATITUDES: (f64, f64) = (-85.051_128_78, 85.051_128_78);
/// The radius of the earth, in meters.
const RADIUS: f64 = 6_372_797.560_856;

/// A place: longitude and latitude, in degrees.
type Place = (f64, f64);

/// The bits of both, one in turn with the other, the latitude's lowest.
fn interleave(latitude: u64, longitude: u64) -> u64 {
    let bit = |number: u64, at: u32| number >> at & 1;
    (0..32).fold(0, |all, at| {
        all | bit(latitude, at) << (2 * at) | bit(longitude, at) << (2 * at + 1)
    })
}

fn apart(cell: u64) -> (u64, u64) {
    (0..32).fold((0, 0), |(latitude, longitude), at| {
        (
            latitude | (cell >> (2 * at) & 1) << at,
            longitude | (cell >> (2 * at + 1) & 1) << at,
        )
    })
}

fn encode(place: Place, latitudes: (f64, f64)) -> u64 {
    let part = |at: f64, (low, high): (f64, f64)| {
        ((at - low) / (high - low) * (1u64 << BITS) as f64) as u64
    };
    interleave(part(place.1, latitudes), part(place.0, LONGITUDES))
}

/// The middle of a cell.
fn decode(cell: u64) -> Place {
    let (latitude, longitude) = apart(cell);
    let scale = (1u64 << BITS) as f64;
    let middle = |part: u64, (low, high): (f64, f64)| {
        let from = low + part as f64 / scale * (high - low);
        let to = low + (part + 1) as f64 / scale * (high - low);
        ((from + to) / 2.0).clamp(low, high)
    };
    (middle(longitude, LONGITUDES), middle(latitude, LATITUDES))
}

fn distance(a: Place, b: Place) -> f64 {
    let (lat_a, lat_b) = (a.1.to_radians(), b.1.to_radians());
    let v = ((b.0.to_radians() - a.0.to_radians()) / 2.0).sin();
    if v == 0.0 {
        return RADIUS * (lat_b - lat_a).abs();
    }
    let u = ((lat_b - lat_a) / 2.0).sin();
    2.0 * RADIUS * (u * u + lat_a.cos() * lat_b.cos() * v * v).sqrt().asin()
}

fn unit(bytes: &[u8]) -> Run<f64> {
    match bytes.to_ascii_lowercase().as_slice() {
        b"m" => Ok(1.0),
        b"km" => Ok(1000.0),
        b"ft" => Ok(0.3048),
        b"mi" => Ok(1609.34),
        _ => refuse("ERR unsupported unit provided. please use M, KM, FT, MI"),
    }
}

fn place(c: &Call, at: usize) -> Run<Place> {
    let number = |i| parse_f64(c.args.at(i)).ok_or(Stop::Reply(NOT_FLOAT.into()));
    let (longitude, latitude) = (number(at)?, number(at + 1)?);
    let within = |x: f64, (low, high): (f64, f64)| (low..=high).contains(&x);
    if !within(longitude, LONGITUDES) || !within(latitude, LATITUDES) {
        return refuse(format!(
            "ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}"
        ));
    }
    Ok((longitude, latitude))
}

/// `GEOADD`.
pub fn geoadd(c: &mut Call) -> Run {
    let (mut only_new, mut only_old, mut changed, mut at) = (false, false, false, 2);
    while at < c.args.len() {
        match () {
            () if c.args.is(at, "NX") => only_new = true,
            () if c.args.is(at, "XX") => only_old = true,
            () if c.args.is(at, "CH") => changed = true,
            () => break,
        }
        at += 1;
    }
    if c.args.len() == at || !(c.args.len() - at).is_multiple_of(3) || (only_new && only_old) {
        return refuse(SYNTAX);
    }
    let mut all = Vec::new();
    for i in (at..c.args.len()).step_by(3) {
        all.push((encode(place(c, i)?, LATITUDES) as f64, c.args.at(i + 2)));
    }
    let key = c.args.at(1);
    let head = match only_old {
        true => c.work.typed(key, Kind::Sorted)?,
        false => Some(c.work.typed_or_new(key, Kind::Sorted)?),
    };
    let Some(mut head) = head else {
        c.out.number(0);
        return Ok(());
    };
    let before = head.count;
    let mut updated = 0;
    for (cell, member) in all {
        let old = score(c.work, &head, member)?;
        if (only_new && old.is_some()) || (only_old && old.is_none()) {
            continue;
        }
        updated += i64::from(old.is_some_and(|old| old != cell));
        put_member(c.work, &mut head, member, old, cell)?;
    }
    let new = (head.count - before) as i64;
    if new > 0 {
        c.work.save(key, &head)?;
    }
    if new + updated > 0 {
        c.work.event(b'z', "zadd", key);
    }
    c.out.number(new + if changed { updated } else { 0 });
    Ok(())
}

fn place_of(c: &Call, head: &Head, member: &[u8]) -> Run<Option<Place>> {
    Ok(score(c.work, head, member)?.map(|cell| decode(cell as u64)))
}

/// A coordinate as Redis writes it.
fn coordinate(number: f64) -> String {
    let text = format!("{number:.17}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn write_place(c: &mut Call, place: Place) {
    c.out.array(2);
    for number in [place.0, place.1] {
        match c.out.third {
            true => c.out.raw(format!(",{}\r\n", coordinate(number)).as_bytes()),
            false => c.out.bulk(coordinate(number)),
        }
    }
}

/// `GEOPOS`.
pub fn geopos(c: &mut Call) -> Run {
    let head = c.work.typed(c.args.at(1), Kind::Sorted)?;
    c.out.array(c.args.len() - 2);
    for i in 2..c.args.len() {
        let found = match &head {
            Some(head) => place_of(c, head, c.args.at(i))?,
            None => None,
        };
        match found {
            Some(place) => write_place(c, place),
            None => c.out.null_array(),
        }
    }
    Ok(())
}

/// `GEODIST`.
pub fn geodist(c: &mut Call) -> Run {
    let unit = match c.args.len() {
        4 => 1.0,
        5 => unit(c.args.at(4))?,
        _ => return refuse(SYNTAX),
    };
    let Some(head) = c.work.typed(c.args.at(1), Kind::Sorted)? else {
        c.out.null();
        return Ok(());
    };
    let (a, b) = (
        place_of(c, &head, c.args.at(2))?,
        place_of(c, &head, c.args.at(3))?,
    );
    match (a, b) {
        (Some(a), Some(b)) => c.out.bulk(format!("{:.4}", distance(a, b) / unit)),
        _ => c.out.null(),
    }
    Ok(())
}

/// `GEOHASH`.
pub fn geohash(c: &mut Call) -> Run {
    const LETTERS: &[u8] = b"0123456789bcdefghjkmnpqrstuvwxyz";
    let head = c.work.typed(c.args.at(1), Kind::Sorted)?;
    c.out.array(c.args.len() - 2);
    for i in 2..c.args.len() {
        let found = match &head {
            Some(head) => place_of(c, head, c.args.at(i))?,
            None => None,
        };
        match found {
            Some(place) => {
                // As all others have it, with all latitudes; the eleventh letter has two bits left, which are
                // zero.
                let cell = encode(place, (-90.0, 90.0));
                let letter = |nth: u32| match nth {
                    10 => LETTERS[0],
                    _ => LETTERS[(cell >> (52 - (nth + 1) * 5) & 31) as usize],
                };
                let text: Vec<u8> = (0..11).map(letter).collect();
                c.out.bulk(text);
            }
            None => c.out.null(),
        }
    }
    Ok(())
}

/// Around what, and how far.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Radius(f64),
    Box(f64, f64),
}

/// Who asks, which says what options there are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Search,
    Radius,
    /// Only reads.
    RadiusRo,
}

#[derive(Default)]
struct Asked {
    center: Option<Place>,
    shape: Option<Shape>,
    unit: f64,
    order: Option<bool>,
    most: Option<usize>,
    any: bool,
    with: [bool; 3],
    store: Option<(Vec<u8>, bool)>,
}

fn length(c: &Call, at: usize, what: &str) -> Run<f64> {
    match parse_f64(c.args.at(at)) {
        Some(length) if length >= 0.0 => Ok(length),
        Some(_) => refuse(format!("ERR {what} cannot be negative")),
        None => refuse(format!("ERR need numeric {what}")),
    }
}

/// Reads options from `i` on.
fn options(c: &mut Call, head: Option<Head>, asked: &mut Asked, mut i: usize, form: Form) -> Run {
    let search = form == Form::Search;
    let stores = form == Form::Radius;
    let member = |c: &Call, at: usize| -> Run<Option<Place>> {
        let Some(head) = &head else {
            // Of nothing there is nothing near anything.
            return Ok(Some((0.0, 0.0)));
        };
        match place_of(c, head, c.args.at(at))? {
            Some(place) => Ok(Some(place)),
            None => refuse("ERR could not decode requested zset member"),
        }
    };
    while i < c.args.len() {
        let left = c.args.len() - i - 1;
        match () {
            () if c.args.is(i, "WITHCOORD") => asked.with[2] = true,
            () if c.args.is(i, "WITHDIST") => asked.with[0] = true,
            () if c.args.is(i, "WITHHASH") => asked.with[1] = true,
            () if c.args.is(i, "ASC") => asked.order = Some(false),
            () if c.args.is(i, "DESC") => asked.order = Some(true),
            () if c.args.is(i, "ANY") => asked.any = true,
            () if left >= 1 && c.args.is(i, "COUNT") => {
                match c.args.integer(i + 1)? {
                    most if most > 0 => asked.most = Some(most as usize),
                    _ => return refuse("ERR COUNT must be > 0"),
                }
                i += 1;
            }
            () if stores && left >= 1 && (c.args.is(i, "STORE") || c.args.is(i, "STOREDIST")) => {
                let distances = c.args.is(i, "STOREDIST");
                asked.store = Some((c.args.at(i + 1).to_vec(), distances));
                i += 1;
            }
            () if search && c.args.is(i, "STOREDIST") && asked.store.is_some() => {
                if let Some((_, distances)) = &mut asked.store {
                    *distances = true;
                }
            }
            () if search && left >= 1 && c.args.is(i, "FROMMEMBER") && asked.center.is_none() => {
                asked.center = member(c, i + 1)?;
                i += 1;
            }
            () if search && left >= 2 && c.args.is(i, "FROMLONLAT") && asked.center.is_none() => {
                asked.center = Some(place(c, i + 1)?);
                i += 2;
            }
            () if search && left >= 2 && c.args.is(i, "BYRADIUS") && asked.shape.is_none() => {
                asked.unit = unit(c.args.at(i + 2))?;
                asked.shape = Some(Shape::Radius(length(c, i + 1, "radius")? * asked.unit));
                i += 2;
            }
            () if search && left >= 3 && c.args.is(i, "BYBOX") && asked.shape.is_none() => {
                asked.unit = unit(c.args.at(i + 3))?;
                let (width, height) = (length(c, i + 1, "width")?, length(c, i + 2, "height")?);
                asked.shape = Some(Shape::Box(width * asked.unit, height * asked.unit));
                i += 3;
            }
            () => return refuse(SYNTAX),
        }
        i += 1;
    }
    Ok(())
}

/// How far a place is from the middle of a shape, if it is within it.
fn within(center: Place, shape: Shape, place: Place) -> Option<f64> {
    let far = distance(center, place);
    let inside = match shape {
        Shape::Radius(radius) => far <= radius,
        Shape::Box(width, height) => {
            // Along the meridian, and along the parallel of the place.
            distance((place.0, center.1), place) <= height / 2.0
                && distance((center.0, place.1), place) <= width / 2.0
        }
    };
    inside.then_some(far)
}

fn answer(c: &mut Call, head: Option<Head>, asked: Asked, event: &'static str) -> Run {
    let (Some(center), Some(shape)) = (asked.center, asked.shape) else {
        return refuse(SYNTAX);
    };
    if asked.any && asked.most.is_none() {
        return refuse("ERR the ANY argument requires COUNT argument");
    }
    if asked.store.is_some() && asked.with.contains(&true) {
        return refuse(
            "ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options",
        );
    }
    let all = Part::Score((f64::NEG_INFINITY, false), (f64::INFINITY, false));
    let mut found: Vec<(Vec<u8>, f64, f64)> = Vec::new();
    if let Some(head) = &head {
        each(c.work, head, &all, RangeLimit::ALL, &mut |member, cell| {
            if let Some(far) = within(center, shape, decode(cell as u64)) {
                found.push((member.to_vec(), cell, far));
            }
        })?;
    }
    // The nearest ones are meant, if only some are wanted.
    if let Some(farthest) = asked
        .order
        .or(asked.most.filter(|_| !asked.any).map(|_| false))
    {
        found.sort_by(|a, b| a.2.total_cmp(&b.2));
        if farthest {
            found.reverse();
        }
    }
    found.truncate(asked.most.unwrap_or(usize::MAX));
    if let Some((to, distances)) = &asked.store {
        let score = |(member, cell, far): (Vec<u8>, f64, f64)| {
            (member, if *distances { far / asked.unit } else { cell })
        };
        let found: Members = found.into_iter().map(score).collect();
        return store_members(c, to, &found, event);
    }
    c.out.array(found.len());
    let parts = asked.with.iter().filter(|with| **with).count();
    for (member, cell, far) in found {
        if parts > 0 {
            c.out.array(parts + 1);
        }
        c.out.bulk(member);
        if asked.with[0] {
            c.out.bulk(format!("{:.4}", far / asked.unit));
        }
        if asked.with[1] {
            c.out.number(cell as i64);
        }
        if asked.with[2] {
            write_place(c, decode(cell as u64));
        }
    }
    Ok(())
}

/// `GEOSEARCH`.
pub fn geosearch(c: &mut Call) -> Run {
    let head = c.work.typed(c.args.at(1), Kind::Sorted)?;
    let mut asked = Asked::default();
    options(c, head, &mut asked, 2, Form::Search)?;
    answer(c, head, asked, "")
}

/// `GEOSEARCHSTORE`.
pub fn geosearchstore(c: &mut Call) -> Run {
    let head = c.work.typed(c.args.at(2), Kind::Sorted)?;
    let mut asked = Asked {
        store: Some((c.args.at(1).to_vec(), false)),
        ..Asked::default()
    };
    options(c, head, &mut asked, 3, Form::Search)?;
    answer(c, head, asked, "geosearchstore")
}

fn radius(c: &mut Call, by_member: bool, form: Form) -> Run {
    let head = c.work.typed(c.args.at(1), Kind::Sorted)?;
    let mut asked = Asked::default();
    let next = match by_member {
        false => {
            asked.center = Some(place(c, 2)?);
            4
        }
        true => {
            asked.center = match &head {
                Some(head) => match place_of(c, head, c.args.at(2))? {
                    Some(place) => Some(place),
                    None => return refuse("ERR could not decode requested zset member"),
                },
                None => Some((0.0, 0.0)),
            };
            3
        }
    };
    asked.unit = unit(c.args.at(next + 1))?;
    asked.shape = Some(Shape::Radius(length(c, next, "radius")? * asked.unit));
    options(c, head, &mut asked, next + 2, form)?;
    answer(c, head, asked, "georadiusstore")
}

/// `GEORADIUS`.
pub fn georadius(c: &mut Call) -> Run {
    radius(c, false, Form::Radius)
}

/// `GEORADIUS_RO`.
pub fn georadius_ro(c: &mut Call) -> Run {
    radius(c, false, Form::RadiusRo)
}

/// `GEORADIUSBYMEMBER`.
pub fn georadiusbymember(c: &mut Call) -> Run {
    radius(c, true, Form::Radius)
}

/// `GEORADIUSBYMEMBER_RO`.
pub fn georadiusbymember_ro(c: &mut Call) -> Run {
    radius(c, true, Form::RadiusRo)
}
