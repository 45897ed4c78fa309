//! The choice of a backend: an environment variable and a call force the portable one, and all give
//! the same bytes. A binary of its own, because `Backend::force` holds for the whole process.

#[path = "srtp/common/mod.rs"]
mod common;

use std::process::Command;

use common::{Keys, Numbers, Rtp, backends, config, protect_rtcp, protect_rtp, rtcp};
use srtp::{Backend, Config, Profile};

/// What a process with this value of the variable prints of itself, by the test below.
fn current_in_a_process(value: Option<&str>) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child_says_its_backend", "--include-ignored", "--nocapture"]);
    command.env_remove(Backend::VARIABLE);
    if let Some(value) = value {
        command.env(Backend::VARIABLE, value);
    }
    let output = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let line = output.lines().find_map(|line| line.split_once("backend: "));
    line.unwrap_or_else(|| panic!("no backend in {output}")).1.to_string()
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn child_says_its_backend() {
    println!("backend: {} {}", Backend::current(), Config::default().backend);
}

#[test]
fn the_environment_variable_chooses_for_the_process() {
    assert_eq!(Backend::VARIABLE, "SRTP_BACKEND");
    for backend in backends() {
        let name = backend.name();
        assert_eq!(current_in_a_process(Some(name)), format!("{name} {name}"));
    }
    let detected = format!("{0} {0}", Backend::detected());
    for value in [None, Some("")] {
        assert_eq!(current_in_a_process(value), detected, "{value:?}");
    }
    for value in ["PORTABLE", "Portable", "turbo", "portabel", " "] {
        assert_eq!(current_in_a_process(Some(value)), "portable portable", "{value:?}");
    }
}

/// The only test here that forces: it holds for the whole process.
#[test]
fn a_call_chooses_for_the_process_until_it_is_taken_back() {
    let before = Backend::current();
    for backend in backends() {
        Backend::force(Some(backend)).unwrap();
        assert_eq!((Backend::current(), Config::default().backend), (backend, backend));
    }
    for backend in Backend::ALL.into_iter().filter(|backend| !backend.is_supported()) {
        let current = Backend::current();
        assert!(Backend::force(Some(backend)).is_err());
        assert_eq!(Backend::current(), current, "nothing is changed");
    }
    Backend::force(None).unwrap();
    assert_eq!(Backend::current(), before);
}

#[test]
fn all_backends_give_the_same_bytes() {
    let mut numbers = Numbers::new(1);
    for profile in Profile::ALL {
        let keys = Keys::new(profile, 1);
        let mut contexts: Vec<_> =
            backends().into_iter().map(|backend| (backend, keys.outbound(&config(backend)))).collect();
        for sequence in 0..300u16 {
            let len = match sequence {
                0..150 => usize::from(sequence),
                _ => numbers.below(1500) as usize,
            };
            let packet =
                Rtp { csrcs: usize::from(sequence % 16), ..Rtp::new(1, sequence, &numbers.bytes(len)) };
            let control = rtcp(1, &numbers.bytes(len));
            let mut sent: Vec<_> = contexts
                .iter_mut()
                .map(|(backend, context)| {
                    let media = protect_rtp(context, &packet.bytes()).unwrap();
                    (*backend, media, protect_rtcp(context, &control).unwrap())
                })
                .collect();
            let (_, media, control) = sent.pop().unwrap();
            for (backend, other_media, other_control) in sent {
                assert_eq!(
                    (&other_media, &other_control),
                    (&media, &control),
                    "{profile} {backend}, {len} bytes"
                );
            }
        }
    }
}
