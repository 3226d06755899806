//! Clients within TLS.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use terrace_serve::{ServeOptions, TlsOptions};

use crate::client::{Served, encoded, options};

type Stream = BufReader<StreamOwned<ClientConnection, TcpStream>>;

fn file(name: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/serve/tls");
    PathBuf::from(folder).join(name)
}

fn served(ca: Option<PathBuf>) -> (Served, SocketAddr) {
    let served = Served::with(ServeOptions {
        tls: Some(TlsOptions {
            addresses: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            cert: file("cert.pem"),
            key: file("key.pem"),
            ca,
            clients_may_be_unknown: false,
        }),
        ..options()
    });
    let address = served.server.addresses()[1];
    (served, address)
}

fn client(address: SocketAddr, is_known: bool) -> Stream {
    let cert = CertificateDer::from_pem_file(file("cert.pem")).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(cert.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match is_known {
        true => {
            let key = PrivateKeyDer::from_pem_file(file("key.pem")).unwrap();
            builder.with_client_auth_cert(vec![cert], key).unwrap()
        }
        false => builder.with_no_client_auth(),
    };
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let tls = ClientConnection::new(Arc::new(config), name).unwrap();
    let socket = TcpStream::connect(address).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    BufReader::new(StreamOwned::new(tls, socket))
}

fn line(stream: &mut Stream) -> std::io::Result<String> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

fn say(stream: &mut Stream, words: &str) -> String {
    let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
    stream.get_mut().write_all(&encoded(&words)).unwrap();
    line(stream).unwrap()
}

#[test]
fn commands_and_large_answers_go_through() {
    let (served, address) = served(None);
    let mut client = client(address, false);
    assert_eq!(say(&mut client, "PING"), "+PONG");
    // More than any buffer holds, in both directions, with a pipeline behind it.
    let value = vec![b'v'; 3 << 20];
    let mut bytes = encoded(&[b"SET", b"k", &value]);
    for _ in 0..3 {
        bytes.extend(encoded(&[b"GET", b"k"]));
    }
    client.get_mut().write_all(&bytes).unwrap();
    assert_eq!(line(&mut client).unwrap(), "+OK");
    for _ in 0..3 {
        assert_eq!(line(&mut client).unwrap(), format!("${}", value.len()));
        let mut got = vec![0; value.len() + 2];
        client.read_exact(&mut got).unwrap();
        assert_eq!(&got[..value.len()], value);
    }
    // The same keys are there in the clear.
    assert_eq!(
        served.client().say("STRLEN k").text(),
        (3 << 20).to_string()
    );
    // One that waits is answered, and one that has gone takes nothing.
    client
        .get_mut()
        .write_all(&encoded(&[b"BLPOP", b"q", b"0"]))
        .unwrap();
    let mut other = served.client();
    while !other
        .say("INFO clients")
        .text()
        .contains("blocked_clients:1")
    {
        std::thread::sleep(Duration::from_millis(10));
    }
    client.get_mut().conn.send_close_notify();
    client.get_mut().flush().unwrap();
    while other
        .say("INFO clients")
        .text()
        .contains("blocked_clients:1")
    {
        std::thread::sleep(Duration::from_millis(10));
    }
    other.say("RPUSH q element");
    assert_eq!(other.say("LLEN q").text(), "1");
}

#[test]
fn who_shows_no_certificate_or_speaks_no_tls_is_sent_away() {
    let (served, address) = served(Some(file("cert.pem")));
    assert_eq!(say(&mut client(address, true), "PING"), "+PONG");
    let mut unknown = client(address, false);
    let wrote = unknown.get_mut().write_all(&encoded(&[b"PING"]));
    assert!(wrote.is_err() || !line(&mut unknown).is_ok_and(|line| line == "+PONG"));
    let mut plain = TcpStream::connect(address).unwrap();
    plain
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let _ = plain.write_all(&encoded(&[b"PING"]));
    let mut said = Vec::new();
    let _ = plain.read_to_end(&mut said);
    assert!(!said.starts_with(b"+PONG"));
    assert_eq!(served.client().say("PING").text(), "PONG");
}

#[test]
fn what_is_not_safe_or_not_there_is_refused() {
    let with = |cert: &str, ip: [u8; 4], ca: Option<PathBuf>| ServeOptions {
        tls: Some(TlsOptions {
            addresses: vec![SocketAddr::from((ip, 0))],
            cert: file(cert),
            key: file("key.pem"),
            ca,
            clients_may_be_unknown: false,
        }),
        ..options()
    };
    assert!(with("cert.pem", [0, 0, 0, 0], None).check().is_err());
    assert!(
        with("cert.pem", [0, 0, 0, 0], Some(file("cert.pem")))
            .check()
            .is_ok()
    );
    let mut nowhere = with("cert.pem", [127, 0, 0, 1], None);
    nowhere.addresses.clear();
    assert!(nowhere.check().is_ok());
    nowhere.tls.iter_mut().for_each(|tls| tls.addresses.clear());
    assert!(nowhere.check().is_err());
    let dir = tempfile::tempdir().unwrap();
    for wrong in ["key.pem", "nothing.pem"] {
        let db = crate::client::database(dir.path(), 64 << 20);
        let started = terrace_serve::Server::start(db, with(wrong, [127, 0, 0, 1], None));
        assert!(started.is_err(), "{wrong}");
    }
}

#[test]
fn the_password_stays_while_other_machines_can_come_within_tls() {
    let served = Served::with(ServeOptions {
        password: Some("secret".into()),
        tls: Some(TlsOptions {
            addresses: vec![SocketAddr::from(([0, 0, 0, 0], 0))],
            cert: file("cert.pem"),
            key: file("key.pem"),
            ca: None,
            clients_may_be_unknown: false,
        }),
        ..options()
    });
    let mut client = served.client();
    client.say("AUTH secret");
    let refused = client.ask(&[b"CONFIG", b"SET", b"requirepass", b""]).text();
    assert!(refused.contains("from other machines"), "{refused}");
    assert!(served.client().say("GET k").text().starts_with("NOAUTH"));
}
