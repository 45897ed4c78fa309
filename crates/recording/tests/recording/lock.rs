//! Two servers on one directory.

use recording::settings::Format;

use crate::rig::{Folder, Server, settings};

#[test]
fn a_second_server_on_a_directory_is_refused_with_a_reason() {
    let folder = Folder::new("lock");
    let first = Server::start(settings(&folder.0, Format::Mp4)).unwrap();
    let error = Server::start(settings(&folder.0, Format::Mp4)).err().expect("refused");
    assert!(error.contains("another server records there") && error.contains("recording-lock"), "{error}");
    first.stop();
    Server::start(settings(&folder.0, Format::Mp4)).unwrap().stop();
}
