//! A client's socket, in the clear or within TLS, as bytes that come and go.
//!
//! Invariants: who reads goes on until nothing comes, for no event tells of what was deciphered; what was
//! enciphered and not sent goes first.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;

use mio::Registry;
use mio::event::Source;
use mio::net::TcpStream;

#[cfg(feature = "tls")]
use rustls::{ServerConfig, ServerConnection};

/// How clients are met within TLS; none for in the clear.
#[cfg(feature = "tls")]
pub type Secured = Option<Arc<ServerConfig>>;
/// How clients are met within TLS, which is not built in.
#[cfg(not(feature = "tls"))]
pub type Secured = Option<Arc<std::convert::Infallible>>;

/// A client's socket.
pub struct Socket {
    tcp: TcpStream,
    #[cfg(feature = "tls")]
    tls: Option<Box<ServerConnection>>,
}

impl Socket {
    /// Of a client that has come.
    ///
    /// # Errors
    /// TLS cannot begin.
    pub fn new(tcp: TcpStream, secured: &Secured) -> io::Result<Socket> {
        #[cfg(feature = "tls")]
        let tls = match secured {
            Some(config) => {
                let begun = ServerConnection::new(config.clone());
                Some(Box::new(begun.map_err(io::Error::other)?))
            }
            None => None,
        };
        #[cfg(not(feature = "tls"))]
        let _ = secured;
        Ok(Socket {
            tcp,
            #[cfg(feature = "tls")]
            tls,
        })
    }

    /// Whether more may have come than was read, though it was less than asked for.
    pub fn may_have_more(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.is_some();
        #[cfg(not(feature = "tls"))]
        false
    }

    /// The address that the client has reached.
    pub fn local_addr(&self) -> io::Result<std::net::SocketAddr> {
        self.tcp.local_addr()
    }

    /// Tells the loop of its events.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn register(&mut self, registry: &Registry, token: mio::Token) -> io::Result<()> {
        let both = mio::Interest::READABLE | mio::Interest::WRITABLE;
        self.tcp.register(registry, token, both)
    }

    /// Sends what was enciphered.
    ///
    /// # Errors
    /// It takes no more for now; it is gone.
    pub fn flush(&mut self) -> io::Result<()> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            while tls.wants_write() {
                if tls.write_tls(&mut self.tcp)? == 0 {
                    return Err(io::ErrorKind::WriteZero.into());
                }
            }
        }
        Ok(())
    }

    /// Whether the client is gone, as far as can be seen without reading what it has said.
    pub fn is_gone(&mut self) -> bool {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            loop {
                match tls.read_tls(&mut self.tcp) {
                    Ok(0) => return true,
                    Ok(_) => match tls.process_new_packets() {
                        Ok(state) if state.peer_has_closed() => return true,
                        Ok(_) => {}
                        Err(_) => return true,
                    },
                    // Nothing more, or more than is kept before it is read.
                    Err(e) => {
                        return !matches!(
                            e.kind(),
                            io::ErrorKind::WouldBlock | io::ErrorKind::Other
                        );
                    }
                }
            }
        }
        match self.tcp.peek(&mut [0]) {
            Ok(0) => true,
            Ok(_) => false,
            Err(e) => e.kind() != io::ErrorKind::WouldBlock,
        }
    }

    /// Ends the connection.
    pub fn close(&mut self, registry: &Registry) {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            let _ = self.flush();
        }
        let _ = self.tcp.deregister(registry);
        let _ = self.tcp.shutdown(Shutdown::Both);
    }
}

impl Read for Socket {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            loop {
                match tls.reader().read(bytes) {
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                    // One that has ended without saying so is gone as well.
                    Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                    read => return read,
                }
                if tls.read_tls(&mut self.tcp)? == 0 {
                    return Ok(0);
                }
                let processed = tls.process_new_packets();
                // Answers of the protocol itself, and why it ends.
                while tls.wants_write() && tls.write_tls(&mut self.tcp).is_ok_and(|n| n > 0) {}
                if let Err(e) = processed {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, e));
                }
            }
        }
        self.tcp.read(bytes)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.flush()?;
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            if tls.is_handshaking() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let taken = tls.writer().write(bytes)?;
            return match self.flush() {
                Err(e) if e.kind() != io::ErrorKind::WouldBlock => Err(e),
                _ => Ok(taken),
            };
        }
        self.tcp.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Socket::flush(self)
    }
}

/// How clients are met within TLS.
///
/// # Errors
/// Files that cannot be read, or hold something else.
#[cfg(feature = "tls")]
pub fn secured(options: Option<&crate::options::TlsOptions>) -> Result<Secured, String> {
    use rustls::RootCertStore;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::server::WebPkiClientVerifier;

    let Some(options) = options else {
        return Ok(None);
    };
    let certificates = |path: &std::path::Path| {
        let all =
            CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        match all {
            Ok(all) if !all.is_empty() => Ok(all),
            Ok(_) => Err(format!("{} holds no certificate", path.display())),
            Err(e) => Err(format!(
                "the certificates in {} cannot be read: {e}",
                path.display()
            )),
        }
    };
    let chain = certificates(&options.cert)?;
    let key = PrivateKeyDer::from_pem_file(&options.key)
        .map_err(|e| format!("the key in {} cannot be read: {e}", options.key.display()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|e| format!("TLS cannot be set up: {e}"))?;
    let builder = match &options.ca {
        Some(ca) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(ca)? {
                let added = roots.add(certificate);
                added.map_err(|e| format!("a certificate in {}: {e}", ca.display()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = match options.clients_may_be_unknown {
                true => verifier.allow_unauthenticated(),
                false => verifier,
            };
            let verifier = verifier.build();
            builder.with_client_cert_verifier(
                verifier.map_err(|e| format!("clients cannot be verified: {e}"))?,
            )
        }
        None => builder.with_no_client_auth(),
    };
    let config = builder.with_single_cert(chain, key);
    let config = config.map_err(|e| format!("certificate and key do not fit: {e}"))?;
    Ok(Some(Arc::new(config)))
}

/// How clients are met within TLS, which is not built in.
///
/// # Errors
/// It was asked for.
#[cfg(not(feature = "tls"))]
pub fn secured(options: Option<&crate::options::TlsOptions>) -> Result<Secured, String> {
    match options {
        Some(_) => Err("TLS is not built into this server (feature `tls`)".to_owned()),
        None => Ok(None),
    }
}
