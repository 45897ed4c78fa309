//! The server started with each way of sending datagrams to viewers: every packet arrives, in order, and by
//! that way.

use group_send::BackendKind;
use rtc::sdp::Direction;

use crate::common::rtc::{Client, Options, exchange};
use crate::common::server::Server;
use crate::host::NEAR_DEVICE;
use crate::place::Place;

/// Values of `rtc.udp_backend`, and what each needs.
const ALL: [(&str, Option<BackendKind>); 6] = [
    ("auto", None),
    ("sendmsg", None),
    ("sendmmsg", None),
    ("gso", None),
    ("io_uring", Some(BackendKind::IoUring)),
    ("af_xdp", Some(BackendKind::AfXdp)),
];
const PACKETS: u32 = 100;
/// Clients of another host need one to publish.
const TOKEN: &str = "sluice-7351";

#[test]
fn every_packet_arrives_by_every_back_end() {
    for (backend, kind) in ALL {
        let Some(place) = Place::of(kind) else { continue };
        let interface = match place.has_hosts() {
            true => format!("af_xdp_interface = \"{NEAR_DEVICE}\"\n"),
            false => String::new(),
        };
        let server = place.near(|at| {
            let listen = format!("udp_listen = [\"{at}:0\"]\ntcp_listen = []\n");
            let http = format!("[http]\nlisten = [\"{at}:0\"]\n");
            let auth = format!("[auth]\npublish_token = \"{TOKEN}\"\n");
            Server::start(&format!("[rtc]\nudp_backend = \"{backend}\"\n{interface}{listen}{http}{auth}"))
        });
        // What a machine does not have is said there.
        assert!(!server.log().contains("datagrams are sent by"), "{backend}: {}", server.log());
        let open = |path, direction| {
            place.far(|at| {
                let headers = vec![("authorization", format!("Bearer {TOKEN}"))];
                let options = Options { address: Some(at), headers, ..Options::default() };
                let mut client = Client::open(&server, path, direction, &options);
                client.connect();
                client
            })
        };
        let mut publisher = open("/whip/live/a", Direction::Send);
        let mut viewer = open("/whep/live/a", Direction::Receive);
        let before = place.sent_by_stack();
        exchange(&mut publisher, &mut viewer, 0..PACKETS);
        // Reports, and what was due before a route was known, go through the socket.
        let by_stack = place.sent_by_stack() - before;
        assert!(by_stack < u64::from(PACKETS) / 2, "{backend}: {by_stack} went through the socket");
    }
}
