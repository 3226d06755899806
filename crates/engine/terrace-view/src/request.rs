//! A request as a browser or a collector sends it, read within bounds of bytes and time.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Longest head of a request: what browsers send has one or two kilobytes.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// How long it may take to come.
const PATIENCE: Duration = Duration::from_secs(5);

/// The head of a request.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// `GET`, usually.
    pub method: String,
    /// Without what follows the question mark.
    pub path: String,
    /// What follows it.
    pub query: String,
    /// The `Host` header.
    pub host: String,
    /// The `Accept` header.
    pub accept: String,
    /// The `Authorization` header.
    pub authorization: String,
}

/// Why there is no request.
#[derive(Debug, PartialEq, Eq)]
pub enum Unread {
    /// The other side has gone, or says nothing.
    Gone,
    /// It is none.
    Bad,
    /// It is too long.
    TooLong,
}

/// Reads the head of a request.
pub fn read(stream: &mut TcpStream) -> Result<Request, Unread> {
    let deadline = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut buffer = [0; 2048];
    loop {
        if let Some(end) = head.windows(4).position(|w| w == b"\r\n\r\n") {
            return parse(&head[..end]).ok_or(Unread::Bad);
        }
        if head.len() > MAX_HEAD_BYTES {
            return Err(Unread::TooLong);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            return Err(Unread::Gone);
        }
        match stream.read(&mut buffer) {
            Ok(0) => return Err(Unread::Gone),
            Ok(read) => head.extend_from_slice(&buffer[..read]),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(_) => return Err(Unread::Gone),
        }
    }
}

/// The head, without the empty line at its end.
fn parse(head: &[u8]) -> Option<Request> {
    let text = std::str::from_utf8(head).ok()?;
    let mut lines = text.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if words.next().is_some() || !version.starts_with("HTTP/1.") || !target.starts_with('/') {
        return None;
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut request = Request {
        method: method.into(),
        path: path.into(),
        query: query.into(),
        ..Request::default()
    };
    let mut hosts = 0;
    for line in lines {
        let (name, value) = line.split_once(':')?;
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "host" => {
                hosts += 1;
                request.host = value.into();
            }
            "accept" => request.accept = value.into(),
            "authorization" => request.authorization = value.into(),
            _ => {}
        }
    }
    (hosts <= 1).then_some(request)
}

impl Request {
    /// The host without its port.
    pub fn host_name(&self) -> &str {
        let host = self.host.as_str();
        match host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => host.split(':').next().unwrap_or_default(),
        }
    }

    /// The token that it shows, in a header or behind the question mark.
    pub fn token(&self) -> &str {
        self.authorization
            .strip_prefix("Bearer ")
            .unwrap_or_else(|| {
                let fields = self.query.split('&');
                fields
                    .filter_map(|field| field.strip_prefix("token="))
                    .next()
                    .unwrap_or_default()
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_parsed_and_what_is_none_is_refused() {
        let head =
            b"GET /api/stats?token=abc&x=1 HTTP/1.1\r\nHost: [::1]:8480\r\nACCEPT: text/html";
        let request = parse(head).unwrap();
        assert_eq!(
            (request.method.as_str(), request.path.as_str()),
            ("GET", "/api/stats")
        );
        assert_eq!((request.host_name(), request.token()), ("::1", "abc"));
        assert_eq!(request.accept, "text/html");
        let head = b"GET / HTTP/1.0\r\nhost: localhost:1\r\nAuthorization: Bearer t";
        let request = parse(head).unwrap();
        assert_eq!((request.host_name(), request.token()), ("localhost", "t"));
        for bad in [
            &b""[..],
            b"GET",
            b"GET /",
            b"GET / HTTP/2",
            b"GET / HTTP/1.1 x",
            b"GET http://localhost/ HTTP/1.1",
            b"GET / HTTP/1.1\r\nno header",
            b"GET / HTTP/1.1\r\nHost: a\r\nHost: b",
            b"GET /\xff HTTP/1.1",
        ] {
            assert_eq!(parse(bad), None, "{}", bad.escape_ascii());
        }
    }
}
