//! Players through the proxy: what they get, what servers are asked, and who is refused.

mod answers;
#[path = "../../../../libs/range-reader-c/tests/range-reader-c/origin.rs"]
mod origin;
mod players;

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::thread::JoinHandle;

use fetch_proxy::{Args, FetchProxy, Report};
use tokio::sync::oneshot;

/// A proxy that runs in a thread.
struct Running {
    address: SocketAddr,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Report>>,
}

impl Running {
    fn start(args: Args) -> Self {
        let (end, ended) = oneshot::channel();
        let (address, bound) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let proxy = FetchProxy::bind(&args).await.expect("a free port");
                address.send(proxy.address()).expect("the test waits");
                proxy.serve(async { drop(ended.await) }).await
            })
        });
        Self { address: bound.recv().expect("it listens"), end: Some(end), thread: Some(thread) }
    }

    /// On loopback, with room for so many files.
    fn local(files_max: u16) -> Self {
        Self::start(args(IpAddr::V4(Ipv4Addr::LOCALHOST), files_max))
    }

    fn url(&self, of: &str) -> String {
        format!("http://{}/{of}", self.address)
    }

    /// Ends it; what it has cost.
    fn stop(mut self) -> Report {
        drop(self.end.take());
        self.thread.take().expect("it runs").join().expect("it does not panic")
    }

    /// The answer to one request: its head, in lower case, and its body.
    fn ask(&self, method: &str, target: &str, fields: &[&str]) -> (String, Vec<u8>) {
        let mut stream = TcpStream::connect(self.address).expect("it listens");
        let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
        write!(stream, "{method} {target} HTTP/1.1\r\n{fields}connection: close\r\n\r\n").expect("it reads");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("it answers");
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n").expect("a head") + 4;
        let head = String::from_utf8(answer[..end].to_vec()).expect("text").to_ascii_lowercase();
        (head, answer.split_off(end))
    }
}

fn args(address: IpAddr, files_max: u16) -> Args {
    Args { port: 0, address, files_max, header: Vec::new(), ca: None }
}
