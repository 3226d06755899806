//! Redis itself, where it is installed.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A server of Redis of its own; it goes with this.
pub struct Redis {
    child: Child,
    pub address: SocketAddr,
    /// Where its files are.
    pub dir: tempfile::TempDir,
}

impl Redis {
    /// Starts one; none where Redis 7.0 is not installed: others answer otherwise.
    pub fn start() -> Option<Redis> {
        let version = Command::new("redis-server").arg("--version").output();
        let version = version.map(|said| String::from_utf8_lossy(&said.stdout).into_owned());
        if !version.is_ok_and(|version| version.contains(" v=7.0.")) {
            eprintln!("skipped: redis-server 7.0 is not installed here");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        for _ in 0..5 {
            let port = TcpListener::bind("127.0.0.1:0")
                .unwrap()
                .local_addr()
                .unwrap()
                .port();
            let child = Command::new("redis-server")
                .args([
                    "--port",
                    &port.to_string(),
                    "--bind",
                    "127.0.0.1",
                    "--save",
                    "",
                ])
                .args([
                    "--appendonly",
                    "no",
                    "--daemonize",
                    "no",
                    "--loglevel",
                    "warning",
                ])
                .current_dir(dir.path())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn();
            let Ok(mut child) = child else {
                eprintln!("skipped: redis-server is not installed here");
                return None;
            };
            let address = SocketAddr::from(([127, 0, 0, 1], port));
            for _ in 0..600 {
                if TcpStream::connect(address).is_ok() {
                    return Some(Redis {
                        child,
                        address,
                        dir,
                    });
                }
                if child.try_wait().unwrap().is_some() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
        panic!("redis-server does not start");
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
