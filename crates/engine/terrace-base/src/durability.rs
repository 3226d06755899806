//! What a write is worth when it returns; the same words everywhere.

/// When a commit returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// Once the record is on the device: it survives a power cut.
    Sync,
    /// Once the record is with the operating system: it survives a crash of the process. A power
    /// cut may take the last moments, always a suffix of the commit order.
    Buffered,
}
