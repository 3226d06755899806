//! Articles: people read articles and comments, write comments, and change what is said of them.
//!
//! 35 of 100 get an article, 35 its first five comments, 20 add one, 10 change a user. Which article follows a power law
//! of -0.95; so does, with sigma 2, how many comments an article has at the beginning.

use std::collections::BTreeMap;

use terrace_bench::rng::Rng;
use terrace_bench::zipf::Zipf;

use crate::row::{key, past, row, text};
use crate::txn::{Engine, IndexDef, Key, Span, Stop, TableDef, missing, scan};

/// What is done, with how many of a hundred.
pub const KINDS: [(&str, u64); 4] = [
    ("get article", 35),
    ("get comments", 35),
    ("add comment", 20),
    ("update user", 10),
];
/// Most comments of an article at the beginning.
const MOST: u64 = 1000;

const USERS: usize = 0;
const ARTICLES: usize = 1;
const COMMENTS: usize = 2;

/// The tables.
pub fn schema() -> Vec<TableDef> {
    vec![
        TableDef {
            name: "users",
            indexes: const {
                &[IndexDef {
                    name: "email",
                    unique: true,
                    number: false,
                    key: by_email,
                }]
            },
            resident: false,
            prefix: 0,
        },
        TableDef {
            name: "articles",
            indexes: &[],
            resident: false,
            prefix: 0,
        },
        TableDef {
            name: "comments",
            indexes: const {
                &[IndexDef {
                    name: "article",
                    unique: false,
                    number: true,
                    key: by_article,
                }]
            },
            resident: false,
            prefix: 0,
        },
    ]
}

row!(
    /// A user.
    User { id: u32, email: String, first: String, last: String, comments: u32, city: String }
);
row!(
    /// An article.
    Article { id: u32, user: u32, title: String, text: String, comments: u32 }
);
row!(
    /// A comment.
    Comment { article: u32, id: u64, user: u32, text: String }
);

fn by_article(row: &[u8]) -> Vec<u8> {
    number(crate::row::Field::read(&mut &row[..])).to_vec()
}

fn by_email(row: &[u8]) -> Vec<u8> {
    User::of(row).email.into_bytes()
}

fn number(n: u32) -> Key {
    key(&[&n.to_be_bytes()])
}

fn email(user: u32) -> String {
    format!("user{user:07}@mail{}.example.org", user % 97)
}

/// How much there is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Articles.
    pub articles: u32,
    /// Users.
    pub users: u32,
}

impl Size {
    /// The size of a scale: 100,000 articles and 200 users times it. (A tenth of the articles is 0.1.)
    pub fn scaled(scale: f64) -> Size {
        Size {
            articles: (100_000.0 * scale).max(10.0) as u32,
            users: (200.0 * scale).max(10.0) as u32,
        }
    }
}

/// Loads all of it: articles and their comments in one partition, users in each that they belong to.
///
/// # Errors
/// Those of the engine.
pub fn load(engine: &dyn Engine, size: Size) -> anyhow::Result<()> {
    let partitions = engine.partitions();
    let mut rng = Rng::new(7);
    for id in 0..size.users {
        let at = id as usize % partitions;
        let user = User {
            id,
            email: email(id),
            first: text(&mut rng, 4, 10),
            last: text(&mut rng, 4, 12),
            comments: 0,
            city: text(&mut rng, 4, 20),
        };
        engine.transact(&[at], &mut |t| {
            t.on(at);
            t.put(USERS, &number(id), &user.bytes())
        })?;
    }
    let counts = Zipf::new(MOST, 2.0);
    let mut next = 0u64;
    for id in 0..size.articles {
        let at = id as usize % partitions;
        let comments = counts.draw(&mut rng) as u32;
        let user = rng.below(u64::from(size.users)) as u32;
        let article = Article {
            id,
            user,
            title: text(&mut rng, 20, 100),
            text: text(&mut rng, 300, 700),
            comments,
        };
        let rows: Vec<(u64, Comment)> = (0..comments)
            .map(|_| {
                next += 1;
                let user = rng.below(u64::from(size.users)) as u32;
                (
                    next,
                    Comment {
                        article: id,
                        id: next,
                        user,
                        text: text(&mut rng, 100, 300),
                    },
                )
            })
            .collect();
        engine.transact(&[at], &mut |t| {
            t.on(at);
            t.put(ARTICLES, &number(id), &article.bytes())?;
            rows.iter()
                .try_for_each(|(id, row)| t.put(COMMENTS, &id.to_be_bytes(), &row.bytes()))
        })?;
    }
    Ok(())
}

/// A reader.
pub struct Client {
    size: Size,
    rng: Rng,
    zipf: Zipf,
    partitions: usize,
    next: u64,
    /// What was done of each kind.
    pub done: [u64; 4],
}

impl Client {
    /// Client number `n`.
    pub fn new(n: usize, size: Size, partitions: usize, seed: u64) -> Client {
        let zipf = Zipf::new(u64::from(size.articles), 0.95);
        Client {
            size,
            rng: Rng::new(seed),
            zipf,
            partitions,
            next: (n as u64 + 1) << 40,
            done: [0; 4],
        }
    }

    fn article(&mut self) -> u32 {
        // Those that are read often lie anywhere.
        let rank = self.zipf.draw(&mut self.rng);
        (terrace_bench::rng::mix(rank) % u64::from(self.size.articles)) as u32
    }

    /// One transaction.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn step(&mut self, engine: &dyn Engine) -> anyhow::Result<usize> {
        let n = self.rng.below(100);
        let article = self.article();
        let user = self.rng.below(u64::from(self.size.users)) as u32;
        let (home, away) = (
            article as usize % self.partitions,
            user as usize % self.partitions,
        );
        let kind = match n {
            0..35 => {
                engine.transact(&[home], &mut |t| {
                    t.on(home);
                    t.get(ARTICLES, &number(article))?
                        .ok_or_else(|| missing("an article"))?;
                    Ok(())
                })?;
                0
            }
            35..70 => {
                engine.transact(&[home], &mut |t| {
                    t.on(home);
                    let low = number(article);
                    t.index(
                        COMMENTS,
                        0,
                        Span {
                            limit: 5,
                            ..Span::of(&low, &past(&low))
                        },
                    )?;
                    Ok(())
                })?;
                1
            }
            70..90 => {
                self.next += 1;
                let comment = Comment {
                    article,
                    id: self.next,
                    user,
                    text: text(&mut self.rng, 100, 300),
                };
                let mut places = vec![home, away];
                places.sort_unstable();
                places.dedup();
                engine.transact(&places, &mut |t| {
                    t.on(home);
                    let row = t
                        .get(ARTICLES, &number(article))?
                        .ok_or_else(|| missing("an article"))?;
                    let mut row = Article::of(&row);
                    row.comments += 1;
                    t.put(ARTICLES, &number(article), &row.bytes())?;
                    t.insert(COMMENTS, &comment.id.to_be_bytes(), &comment.bytes())?;
                    t.on(away);
                    let row = t
                        .get(USERS, &number(user))?
                        .ok_or_else(|| missing("a user"))?;
                    let mut row = User::of(&row);
                    row.comments += 1;
                    t.put(USERS, &number(user), &row.bytes())
                })?;
                2
            }
            _ => {
                let city = text(&mut self.rng, 4, 20);
                engine.transact(&[away], &mut |t| {
                    t.on(away);
                    let low = email(user).into_bytes();
                    let found = t.index(USERS, 0, Span::first(&low, &past(&low)))?;
                    let mut row = User::of(found.first().ok_or_else(|| missing("a user"))?);
                    row.city.clone_from(&city);
                    t.put(USERS, &number(row.id), &row.bytes())
                })?;
                3
            }
        };
        self.done[kind] += 1;
        Ok(kind)
    }
}

/// Each article has as many comments as it says, by the table and by the index; the users' numbers agree with what
/// was added since the beginning. Answers how many there are.
///
/// # Errors
/// What does not agree; those of the engine.
pub fn check(engine: &dyn Engine, size: Size) -> anyhow::Result<u64> {
    let (mut said, mut added, mut found) = (BTreeMap::new(), 0u64, BTreeMap::new());
    scan(engine, ARTICLES, |_, row| {
        let article = Article::of(row);
        if article.comments > 0 {
            said.insert(article.id, article.comments);
        }
        Ok(())
    })?;
    let mut new = 0u64;
    scan(engine, COMMENTS, |key, row| {
        *found.entry(Comment::of(row).article).or_insert(0u32) += 1;
        new += u64::from(u64::from_be_bytes(*key) >> 40 > 0);
        Ok(())
    })?;
    anyhow::ensure!(
        said == found,
        "articles have other numbers of comments than they say"
    );
    let mut users = 0;
    scan(engine, USERS, |_, row| {
        added += u64::from(User::of(row).comments);
        users += 1;
        Ok(())
    })?;
    anyhow::ensure!(users == size.users, "{users} users of {}", size.users);
    anyhow::ensure!(
        new == added,
        "{new} comments were added, users have {added}"
    );
    for (article, comments) in said.iter().step_by(1 + said.len() / 1000) {
        let home = *article as usize % engine.partitions();
        engine.transact(&[home], &mut |t| {
            t.on(home);
            let low = number(*article);
            match t.index(COMMENTS, 0, Span::of(&low, &past(&low)))?.len() == *comments as usize {
                true => Ok(()),
                false => Err(Stop::Failed(anyhow::anyhow!(
                    "the index has other comments of article {article}"
                ))),
            }
        })?;
    }
    Ok(found.values().map(|&n| u64::from(n)).sum())
}
