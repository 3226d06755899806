//! A command as it runs.

use super::args::Args;
use crate::host::Host;
use crate::proto::reply::Reply;
use crate::session::Session;
use crate::store::work::Work;

/// A command as it runs: what was said, by whom, and where its answer goes.
pub struct Call<'a> {
    /// What was said.
    pub args: Args<'a>,
    /// The keys.
    pub work: &'a mut Work,
    /// The answer.
    pub out: &'a mut Reply,
    /// Who has said it.
    pub session: &'a mut Session,
    /// The server.
    pub host: &'a Host,
}
