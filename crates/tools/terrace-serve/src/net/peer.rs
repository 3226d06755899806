//! A client's socket, and what has not come or gone yet.

use std::io::{self, Read, Write};
use std::time::Instant;

use crate::line::Line;
use crate::socket::Socket;

/// Bytes that are read at a time.
pub const READ: usize = 64 << 10;
/// Buffers that are kept for clients that say something: what is longer is given back to the system.
const KEPT: usize = 64 << 10;

/// A client.
pub struct Peer {
    /// Its socket.
    pub socket: Socket,
    /// Its commands and answers, unless the pool has them.
    pub line: Option<Box<Line>>,
    /// How much of the answers was sent.
    pub sent: usize,
    /// Whether there may be bytes to be read.
    pub readable: bool,
    /// Whether it has said that nothing more will come behind what is to be read.
    pub ended: bool,
    /// What was published for it while the pool had its line.
    pub said: Vec<u8>,
    /// Whether it was woken while the pool had its line, or while its answers could not go.
    pub woken: bool,
    /// Bytes of its buffers that are counted.
    pub counted: usize,
    /// Whether it waits until it can write.
    pub writes: bool,
    /// Which version of the protocol it spoke when the pool got its line.
    pub third: bool,
    /// Until when it waits, as the loop has noted it.
    pub until: Option<Instant>,
    /// Whether the loop was told to come back to it.
    pub returns: bool,
}

/// What reading came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Got {
    /// This many bytes.
    Bytes(usize),
    /// Nothing for now.
    Nothing,
    /// Nothing any more.
    End,
}

/// Buffers that are not in use: most clients say nothing most of the time, and then have none.
#[derive(Default)]
pub struct Spares(Vec<Vec<u8>>);

impl Spares {
    /// Most of them.
    const MOST: usize = 64;

    fn give(&mut self, buffer: &mut Vec<u8>) {
        let buffer = std::mem::take(buffer);
        if self.0.len() < Spares::MOST && (1..=KEPT).contains(&buffer.capacity()) {
            self.0.push(buffer);
        }
    }

    fn fill(&mut self, buffer: &mut Vec<u8>) {
        if buffer.capacity() == 0
            && let Some(spare) = self.0.pop()
        {
            *buffer = spare;
        }
    }
}

impl Peer {
    /// A client that has come.
    pub fn new(socket: Socket, line: Box<Line>) -> Peer {
        Peer {
            socket,
            line: Some(line),
            sent: 0,
            readable: true,
            ended: false,
            said: Vec::new(),
            woken: false,
            counted: 0,
            writes: false,
            third: false,
            until: None,
            returns: false,
        }
    }

    /// Reads some bytes.
    pub fn read(&mut self, scratch: &mut [u8], spares: &mut Spares) -> Got {
        let Some(line) = &mut self.line else {
            return Got::Nothing;
        };
        loop {
            match self.socket.read(scratch) {
                Ok(0) => {
                    (self.readable, self.ended) = (false, true);
                    return Got::End;
                }
                Ok(n) => {
                    // What was less than asked for was all; the next bytes are told. The end was told, and is not again.
                    self.readable = n == scratch.len() || self.socket.may_have_more() || self.ended;
                    spares.fill(&mut line.input);
                    spares.fill(&mut line.out.bytes);
                    line.compact();
                    line.input.extend_from_slice(&scratch[..n]);
                    return Got::Bytes(n);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.readable = false;
                    return Got::Nothing;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    (self.readable, self.ended) = (false, true);
                    return Got::End;
                }
            }
        }
    }

    /// Sends answers, as many as it takes now; how many bytes that were.
    ///
    /// # Errors
    /// It is gone.
    pub fn write(&mut self, spares: &mut Spares) -> io::Result<usize> {
        let Some(line) = &mut self.line else {
            return Ok(0);
        };
        let before = self.sent;
        self.writes = false;
        while self.sent < line.out.bytes.len() {
            match self.socket.write(&line.out.bytes[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => self.sent += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.writes = true;
                    break;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        // What was enciphered and did not go yet.
        match self.socket.flush() {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.writes = true,
            Err(e) => return Err(e),
        }
        let written = self.sent - before;
        line.compact();
        if self.sent == line.out.bytes.len() {
            line.out.bytes.clear();
            self.sent = 0;
            // What is not answered yet will need it, unless it is long.
            if line.input.is_empty() || line.out.bytes.capacity() > KEPT {
                spares.give(&mut line.out.bytes);
            }
        }
        if line.input.is_empty() {
            spares.give(&mut line.input);
        }
        Ok(written)
    }

    /// Whether it is gone, as far as can be seen without reading what it has said.
    pub fn is_gone(&mut self) -> bool {
        // No event tells of what is deciphered by looking: it has to be read.
        self.readable |= self.socket.may_have_more();
        self.socket.is_gone()
    }

    /// Bytes of answers that it has not taken.
    pub fn unsent(&self) -> usize {
        let line = self.line.as_ref();
        line.map_or(0, |line| line.out.bytes.len() - self.sent) + self.said.len()
    }
}
