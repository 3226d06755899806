//! A socket in the folder of an open database, over which other processes of the same user ask for figures,
//! checkpoints and verifications: see [`crate::Options::control`] and [`Control`].
//!
//! The protocol is lines of JSON. A request is `{"command":"stat"}`, of at most [`MAX_LINE_BYTES`] with its
//! line end. An answer is any number of lines `{"progress":…}`, where it takes long and the client listens, and
//! then `{"ok":…}` or `{"error":{"kind":"…","text":"…"}}`, with `detail` beside it where the text is made of
//! parts ([`crate::Error`] of that kind). No command reads or writes a record. In a
//! request for a backup `set` is the whole path of the folder of the set. `rate`, there and of a compaction, is
//! in bytes a second, or none for as fast as it goes; with `"gentle":true` it goes so slowly that others hardly
//! notice. A backup, a compaction and a verification are ended when who asked goes away, and when the database
//! is closed.
//!
//! | command | what `ok` holds |
//! | --- | --- |
//! | `version` | the version of Terrace, and of the protocol |
//! | `stat` | [`crate::Stats`], as [`crate::Database::stats`] gives it |
//! | `survey` | the same as [`crate::Database::survey`] gives it; reads some dozen pages of each structure |
//! | `checkpoint` | [`crate::CheckpointInfo`] |
//! | `backup` | `BackupReport`; the request has `"backup":{"set":"/path","full":false,"rate":null}` beside it |
//! | `follow` | `FollowStatus`; a point is made, and the log is copied to the set until the database is closed or this is stopped; the request has `backup` (`set`; `rate` for points, gentle without; and if others than usual are wanted `every_ms` and `point_after`, in bytes) |
//! | `stop_following` | `FollowStatus`, when the rest was copied; the request has `backup`, of which `set` counts |
//! | `mark` | [`crate::Mark`]; the request has `"name":"…"` beside it, and that of a backup may |
//! | `compact` | [`crate::CompactReport`]; the request may have `"fill":0.95`, `"rate":null` and `"gentle":true` beside it |
//! | `verify` | [`crate::VerifyReport`]; all other calls of the database wait until it is done |
//!
//! Limits: eight connections, ten idle seconds each, requests one after the other. The socket belongs to
//! the user of the process (mode 0600), and who connects must be that user, or root.

mod ask;
mod listen;
mod protocol;
mod refusal;
mod serve;
mod socket;

pub use ask::Control;
pub(crate) use listen::listen;
pub use protocol::{MAX_LINE_BYTES, PROTOCOL, Version};
pub use socket::SOCKET;
