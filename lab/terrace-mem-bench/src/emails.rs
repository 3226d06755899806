//! Host-reversed email addresses with the frequencies of real names and mail providers.
//!
//! Names are the most frequent ones of the United States with their counts; half of the
//! addresses are at the few large providers with about their market shares, the rest at a long
//! tail of company domains.

use crate::keys::KeySet;
use crate::random::{Random, shuffle};
use std::collections::HashSet;

/// Byte strings end to end.
#[derive(Default)]
pub struct Emails {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl KeySet for Emails {
    type Key = [u8];
    fn len(&self) -> usize {
        self.ends.len()
    }
    fn get(&self, i: usize) -> &[u8] {
        let from = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.bytes[from..self.ends[i]]
    }
    fn bytes(&self) -> usize {
        self.bytes.len()
    }
    fn pick(&self, places: &[usize]) -> Self {
        let mut picked = Emails::default();
        places.iter().for_each(|&i| picked.push(self.get(i)));
        picked
    }
}

const FIRST: &str = "james:47 robert:45 john:45 michael:43 david:36 william:35 richard:24 joseph:23 \
thomas:22 charles:22 christopher:20 daniel:19 matthew:16 anthony:14 mark:13 donald:13 steven:13 \
andrew:13 paul:12 joshua:12 kenneth:12 kevin:12 brian:12 timothy:10 ronald:10 george:10 jason:10 \
edward:9 jeffrey:9 ryan:9 jacob:9 nicholas:9 gary:9 eric:8 jonathan:8 stephen:8 larry:8 justin:8 \
scott:7 brandon:7 benjamin:7 samuel:7 gregory:7 alexander:6 patrick:6 frank:6 raymond:6 jack:6 \
mary:31 patricia:15 jennifer:15 linda:14 elizabeth:14 barbara:14 susan:11 jessica:10 karen:10 \
sarah:10 lisa:10 nancy:9 sandra:9 betty:9 ashley:9 emily:9 kimberly:8 margaret:9 donna:8 \
michelle:8 carol:8 amanda:8 melissa:8 deborah:7 stephanie:7 rebecca:7 sharon:7 laura:7 cynthia:7 \
amy:7 kathleen:7 angela:7 dorothy:6 shirley:6 emma:6 brenda:6 nicole:6 pamela:6 samantha:6 anna:6 \
katherine:6 christine:6 debra:6 rachel:6 olivia:5 carolyn:5 maria:5 janet:5 heather:5 diane:5";

const LAST: &str = "smith:2442 johnson:1932 williams:1625 brown:1437 jones:1425 garcia:1166 \
miller:1161 davis:1116 rodriguez:1095 martinez:1060 hernandez:1043 lopez:875 gonzalez:841 \
wilson:801 anderson:784 thomas:757 taylor:751 moore:724 jackson:708 martin:702 lee:694 perez:682 \
thompson:664 white:660 harris:624 sanchez:613 clark:562 ramirez:558 lewis:532 robinson:530 \
walker:524 young:485 allen:482 king:465 wright:459 scott:440 torres:437 nguyen:437 hill:434 \
flores:433 green:430 adams:428 nelson:424 baker:420 hall:407 rivera:392 campbell:386 mitchell:385 \
carter:376 roberts:376 gomez:366 phillips:361 evans:356 turner:349 diaz:347 parker:337 cruz:335 \
edwards:332 collins:329 reyes:328 stewart:325 morris:319 morales:316 murphy:308 cook:302 \
rogers:302 gutierrez:293 ortiz:286 morgan:285 cooper:280 peterson:278 bailey:277 reed:277 \
kelly:267 howard:264 ramos:263 kim:262 cox:261 ward:260 richardson:259 watson:252 brooks:251 \
chavez:250 wood:250 james:249 bennett:247 gray:246 mendoza:242 ruiz:238 hughes:236 price:235 \
alvarez:233 castillo:230 sanders:230 patel:229 myers:224 long:223 ross:219 foster:218 jimenez:217 \
powell:215 jenkins:213 perry:212 russell:211 sullivan:210 bell:209 coleman:208 butler:207 \
henderson:206 barnes:205 gonzales:204 fisher:203 vasquez:202 simmons:201 romero:200 jordan:199 \
patterson:198 alexander:197 hamilton:196 graham:195 reynolds:194 griffin:193 wallace:192";

const HOSTS: &str = "com.gmail:300 com.yahoo:110 com.hotmail:110 com.outlook:45 com.aol:30 \
com.icloud:25 net.comcast:15 com.msn:12 com.live:12 net.att:8 net.verizon:8 de.gmx:8 de.web:7 \
ru.mail:10 ru.yandex:7 com.qq:12 com.163:8 uk.co.yahoo:8 uk.co.hotmail:7 fr.orange:6 fr.free:5 \
it.libero:5 com.me:4 net.cox:4 net.sbcglobal:5 com.protonmail:4 ca.rogers:2 au.com.bigpond:3";

const WORDS: &str = "north south pacific atlantic summit river stone blue green bright first united \
general advanced global metro city capital union pioneer liberty eagle harbor valley mountain \
golden silver star digital data cloud soft net tech health medical dental legal financial \
insurance realty property design media print auto motor steel power energy solar water food farm \
travel logistics freight marine air aero bio pharma lab systems solutions services partners group \
associates consulting holdings industries works supply tools";

const TOPS: &str = "com:70 org:8 net:6 co.uk:5 de:4 com.au:3 ca:3 fr:2 edu:5 gov:1";

struct Table<'a> {
    items: Vec<&'a str>,
    /// Item by fine-grained share, so that a draw is one look.
    draw: Vec<u16>,
}

impl<'a> Table<'a> {
    fn new(text: &'a str) -> Self {
        let (mut items, mut draw) = (Vec::new(), Vec::new());
        for word in text.split_whitespace() {
            let (item, share) = word.split_once(':').unwrap_or((word, "1"));
            let share = share.parse().unwrap_or(1);
            draw.extend(std::iter::repeat_n(items.len() as u16, share));
            items.push(item);
        }
        Table { items, draw }
    }

    fn draw(&self, random: &mut Random) -> &'a str {
        self.items[usize::from(self.draw[random.below(self.draw.len())])]
    }
}

impl Emails {
    fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    /// `n` distinct addresses in random order.
    pub fn generate(n: usize) -> Self {
        let mut random = Random(11);
        let [first, last, hosts, words, tops] = [FIRST, LAST, HOSTS, WORDS, TOPS].map(Table::new);
        // About one company for every hundred addresses.
        let companies: Vec<String> = (0..(n / 100).max(10))
            .map(|_| {
                let (a, b) = (words.draw(&mut random), words.draw(&mut random));
                let top: Vec<&str> = tops.draw(&mut random).rsplit('.').collect();
                let number = random.below(4000);
                let number = if number < 1000 {
                    number.to_string()
                } else {
                    String::new()
                };
                let c = if random.below(3) == 0 {
                    ""
                } else {
                    words.draw(&mut random)
                };
                format!("{}.{a}{b}{c}{number}", top.join("."))
            })
            .collect();
        let mut seen = HashSet::with_capacity(n);
        let mut keys = Emails::default();
        let mut key = String::new();
        while keys.len() < n {
            key.clear();
            let (f, l) = (first.draw(&mut random), last.draw(&mut random));
            let company = random.below(100) < 40;
            if company {
                // Few companies are large.
                let share = random.unit().powi(3);
                key.push_str(&companies[(share * companies.len() as f64) as usize]);
            } else {
                key.push_str(hosts.draw(&mut random));
            }
            key.push('@');
            let initial = &f[..1];
            match random.below(if company { 60 } else { 100 }) {
                0..40 => key.extend([f, ".", l]),
                40..50 => key.extend([initial, l]),
                50..60 => key.extend([f, "_", l]),
                60..80 => key.extend([f, l]),
                _ => key.extend([l, ".", f]),
            }
            if !company || random.below(2) == 0 {
                match random.below(10) {
                    0..2 => {}
                    2..4 => key.push_str(&random.below(100).to_string()),
                    4..7 => key.push_str(&(1940 + random.below(70)).to_string()),
                    _ => key.push_str(&random.below(1_000_000).to_string()),
                }
            }
            let mut hash = 0xCBF2_9CE4_8422_2325u64;
            key.bytes()
                .for_each(|b| hash = (hash ^ u64::from(b)).wrapping_mul(0x100_0000_01B3));
            if !seen.insert(hash) {
                key.push_str(&format!("{:05}", random.below(1_000_000)));
                // From the beginning, as of any other key: a longer one may be the same.
                hash = 0xCBF2_9CE4_8422_2325u64;
                key.bytes()
                    .for_each(|b| hash = (hash ^ u64::from(b)).wrapping_mul(0x100_0000_01B3));
                if !seen.insert(hash) {
                    continue;
                }
            }
            keys.push(key.as_bytes());
        }
        let mut order: Vec<usize> = (0..n).collect();
        shuffle(&mut order, &mut random);
        keys.pick(&order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_address_comes_twice() {
        let keys = Emails::generate(200_000);
        let mut all: Vec<&[u8]> = (0..keys.len()).map(|i| keys.get(i)).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 200_000);
    }
}
