//! Months of orders in virtual time, with an authority whose answers the test chooses.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Mutex;
use std::time::UNIX_EPOCH;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::*;
use crate::settings::ChallengeKind;

const DAY: Duration = Duration::from_secs(86_400);
const MINUTE: Duration = Duration::from_secs(60);
/// The start of every test, since 1970.
const BEGIN: Duration = Duration::from_secs(1_800_000_000);

/// What an authority does about an order.
#[derive(Debug, Clone)]
enum Answer {
    /// Issues for so long.
    Issue(Duration),
    /// Issues for other names.
    OtherNames,
    /// Issues for another key.
    OtherKey,
    /// Issues what was valid once.
    Expired,
    /// Issues one whose chain goes nowhere.
    NoChain,
    /// Sends something else.
    Garbage,
    Refuse(Option<Duration>),
}

struct Issued {
    clock: Clock,
    /// In turn; then the last one again and again.
    answers: VecDeque<Answer>,
    /// When it was asked, and whether with the certificate that is replaced.
    asked: Vec<(Duration, bool)>,
    suggestion: Option<Suggestion>,
    key: KeyPair,
}

/// Shared with the test.
#[derive(Clone)]
struct Fake(Arc<Mutex<Issued>>);

impl Fake {
    fn new(answers: &[Answer]) -> Self {
        let (answers, key) = (answers.iter().cloned().collect(), KeyPair::generate().expect("a key"));
        let issued = Issued { clock: clock(), answers, asked: Vec::new(), suggestion: None, key };
        Self(Arc::new(Mutex::new(issued)))
    }

    fn asked(&self) -> Vec<(Duration, bool)> {
        self.0.lock().expect("no panic").asked.clone()
    }

    fn set(&self, answers: &[Answer]) {
        self.0.lock().expect("no panic").answers = answers.iter().cloned().collect();
    }
}

impl Issued {
    fn pem(&self, names: &[String], (begin, end): (Duration, Duration), is_chain: bool) -> String {
        let authority = |name: &str| {
            let mut params = CertificateParams::default();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.distinguished_name.push(rcgen::DnType::CommonName, name);
            params
        };
        let own = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(names.to_vec()).expect("names");
        params.not_before = (UNIX_EPOCH + begin).into();
        params.not_after = (UNIX_EPOCH + end).into();
        let by = authority("authority");
        let issuer = Issuer::from_params(&by, &self.key);
        let leaf = params.signed_by(&own, &issuer).expect("signed").pem();
        let next = authority(if is_chain { "authority" } else { "stranger" });
        let next = next.self_signed(&self.key).expect("signed").pem();
        format!("{}{leaf}{next}", own.serialize_pem())
    }
}

impl Authority for Fake {
    async fn issue(&mut self, names: &[String], replaced: Option<&Certificate>) -> Result<String, Failure> {
        let mut issued = self.0.lock().expect("no panic");
        let now = (issued.clock)();
        issued.asked.push((now, replaced.is_some()));
        let answer = match issued.answers.len() {
            1 => issued.answers[0].clone(),
            _ => issued.answers.pop_front().expect("an answer"),
        };
        let valid = (now, now + 90 * DAY);
        Ok(match answer {
            Answer::Issue(life) => issued.pem(names, (now, now + life), true),
            Answer::OtherNames => issued.pem(&["other.test".to_owned()], valid, true),
            Answer::OtherKey => {
                let (_, chain) = split(&issued.pem(names, valid, true));
                split(&issued.pem(names, valid, true)).0 + &chain
            }
            Answer::Expired => issued.pem(names, (now - 9 * DAY, now - DAY), true),
            Answer::NoChain => issued.pem(names, valid, false),
            Answer::Garbage => "<html>".to_owned(),
            Answer::Refuse(retry_after) => {
                let message = "no".to_owned();
                return Err(Failure { cause: Cause::Refused, message, retry_after });
            }
        })
    }

    async fn renewal_window(&mut self, _: &Certificate) -> Option<Suggestion> {
        self.0.lock().expect("no panic").suggestion
    }
}

/// Key and certificates.
fn split(pem: &str) -> (String, String) {
    let at = pem.find("-----BEGIN CERTIFICATE").expect("a certificate");
    (pem[..at].to_owned(), pem[at..].to_owned())
}

fn clock() -> Clock {
    let begin = Instant::now();
    Box::new(move || BEGIN + begin.elapsed())
}

struct World {
    directory: TempDir,
    fake: Fake,
    store: Arc<CertificateStore>,
    status: Arc<AcmeStatus>,
    task: JoinHandle<()>,
}

impl World {
    fn new(answers: &[Answer]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let state = directory.path().join("state");
        Self::start(directory, &state, Fake::new(answers))
    }

    fn start(directory: TempDir, state: &Path, fake: Fake) -> Self {
        let settings = AcmeSettings {
            orders: vec![vec!["a.test".to_owned(), "b.test".to_owned()]],
            contact: Vec::new(),
            directory: "https://authority.test/dir".to_owned(),
            challenge: ChallengeKind::Tls,
            state_directory: state.to_owned(),
            external_account: None,
            extra_roots_pem: Vec::new(),
            renew_before: None,
        };
        let (store, status) = (Arc::<CertificateStore>::default(), Arc::<AcmeStatus>::default());
        let storage = Arc::new(Storage::new(&settings));
        // The same beginning as that of the authority.
        let same = fake.clone();
        let clock = Box::new(move || (same.0.lock().expect("no panic").clock)());
        let (of_store, of_status) = (Arc::clone(&store), Arc::clone(&status));
        let manager = Manager::new(&settings, fake.clone(), storage, of_store, of_status, clock);
        Self { directory, fake, store, status, task: tokio::spawn(manager.run()) }
    }

    /// The process ends, and another begins.
    async fn restart(self) -> Self {
        let Self { directory, fake, task, .. } = self;
        task.abort();
        let _ = task.await;
        let state = directory.path().join("state");
        Self::start(directory, &state, fake)
    }

    /// Those that clients are shown, by their end in days after the start.
    fn used(&self) -> Vec<u64> {
        self.store.list().iter().map(|one| (one.not_after - BEGIN).as_secs() / 86_400).collect()
    }

    fn failed(&self, cause: Cause) -> u64 {
        self.status.failed().find(|(other, _)| *other == cause).expect("each is counted").1
    }
}

/// Gaps between the times that an authority was asked.
fn gaps(asked: &[(Duration, bool)]) -> Vec<Duration> {
    asked.windows(2).map(|pair| pair[1].0 - pair[0].0).collect()
}

#[tokio::test(start_paused = true)]
async fn eleven_months_take_six_orders_and_a_restart_none() {
    let world = World::new(&[Answer::Issue(90 * DAY)]);
    tokio::time::sleep(MINUTE).await;
    assert_eq!((world.fake.asked().len(), world.used()), (1, vec![90]));
    let world = world.restart().await;
    assert_eq!(world.used(), [90], "before anything else");
    // Five renewals come within 315 days at the latest, and a sixth after 360 at the earliest.
    tokio::time::sleep(340 * DAY).await;
    let asked = world.fake.asked();
    assert!(gaps(&asked).iter().all(|gap| (60 * DAY..64 * DAY).contains(gap)), "{asked:?}");
    assert_eq!(asked.len(), 6);
    assert!(asked[1..].iter().all(|(_, replaces)| *replaces), "the order names what it replaces");
    assert_eq!(world.status.issued(), 5, "of the second process");
}

#[tokio::test(start_paused = true)]
async fn failures_are_tried_again_more_and_more_rarely_and_the_last_certificate_stays() {
    let world = World::new(&[Answer::Issue(90 * DAY), Answer::Refuse(None)]);
    tokio::time::sleep(80 * DAY).await;
    let asked = world.fake.asked();
    let gaps = gaps(&asked[1..]);
    assert!(gaps[0] >= MINUTE && gaps[0] < 2 * MINUTE, "{gaps:?}");
    assert!(gaps.iter().all(|gap| *gap < 8 * 60 * MINUTE), "{gaps:?}");
    assert!(*gaps.last().expect("many") >= 6 * 60 * MINUTE);
    assert_eq!((asked[1].1, asked[2].1), (true, false), "what it may not like is left out");
    assert_eq!(world.used(), [90]);
    assert_eq!(world.failed(Cause::Refused), asked.len() as u64 - 1);
    let order = &world.status.orders()[0];
    assert_eq!(
        (order.last_error.as_deref(), u64::from(order.failures)),
        (Some("no"), asked.len() as u64 - 1)
    );
    world.fake.set(&[Answer::Issue(90 * DAY)]);
    tokio::time::sleep(DAY).await;
    assert_eq!(world.used().len(), 1);
    assert!(world.used()[0] > 160);
    assert_eq!((world.status.orders()[0].failures, &world.status.orders()[0].last_error), (0, &None));
}

#[tokio::test(start_paused = true)]
async fn what_was_not_ordered_is_not_used() {
    let bad = [Answer::OtherNames, Answer::OtherKey, Answer::Expired, Answer::NoChain, Answer::Garbage];
    let world = World::new(&[Answer::Issue(90 * DAY)]);
    tokio::time::sleep(MINUTE).await;
    world.fake.set(&[&bad[..], &[Answer::Refuse(None)]].concat());
    // The renewal, and an hour of its failures.
    tokio::time::sleep(80 * DAY).await;
    assert_eq!((world.used(), world.failed(Cause::BadAnswer)), (vec![90], 5));
    assert_eq!(world.status.storage_errors(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_authority_that_wants_to_be_asked_later_is() {
    let world = World::new(&[Answer::Refuse(Some(90 * MINUTE))]);
    tokio::time::sleep(89 * MINUTE).await;
    assert_eq!(world.fake.asked().len(), 1);
    tokio::time::sleep(30 * MINUTE).await;
    assert_eq!(world.fake.asked().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_started_again_and_again_does_not_ask_as_often() {
    let mut world = World::new(&[Answer::Refuse(None)]);
    for _ in 0..30 {
        tokio::time::sleep(Duration::from_secs(10)).await;
        world = world.restart().await;
    }
    let asked = world.fake.asked();
    assert!((4..=6).contains(&asked.len()), "{asked:?}");
    assert!(gaps(&asked).iter().all(|gap| *gap >= MINUTE - Duration::from_secs(1)), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn certificates_for_seconds_are_not_ordered_every_second() {
    let world = World::new(&[Answer::Issue(Duration::from_secs(9))]);
    tokio::time::sleep(60 * MINUTE).await;
    let asked = world.fake.asked();
    assert!((55..=61).contains(&asked.len()), "{}", asked.len());
    assert!(gaps(&asked).iter().all(|gap| *gap >= MINUTE));
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_takes_nothing_stops_no_certificate() {
    let directory = tempfile::tempdir().expect("a directory");
    let state = directory.path().join("state");
    std::fs::write(&state, "a file where a directory should be").expect("written");
    let world = World::start(directory, &state, Fake::new(&[Answer::Issue(90 * DAY)]));
    tokio::time::sleep(MINUTE).await;
    assert_eq!(world.used(), [90], "from memory");
    assert!(world.status.storage_errors() > 0);
    std::fs::remove_file(&state).expect("removed");
    tokio::time::sleep(2 * 60 * MINUTE).await;
    let world = world.restart().await;
    assert_eq!(world.used(), [90], "written when the disk took it");
    assert_eq!(world.fake.asked().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_authority_may_ask_for_an_earlier_renewal() {
    let world = World::new(&[Answer::Issue(90 * DAY)]);
    let window = (BEGIN + 10 * DAY, BEGIN + 11 * DAY);
    let suggestion = Suggestion { window, ask_after: 6 * 60 * MINUTE };
    world.fake.0.lock().expect("no panic").suggestion = Some(suggestion);
    tokio::time::sleep(9 * DAY).await;
    assert_eq!(world.fake.asked().len(), 1);
    tokio::time::sleep(2 * DAY + MINUTE).await;
    let asked = world.fake.asked();
    assert!((window.0..window.1 + MINUTE).contains(&asked[1].0), "{asked:?}");
    // It is never content: the window is past for each new one.
    tokio::time::sleep(10 * DAY).await;
    let asked = world.fake.asked();
    assert!((9..=13).contains(&asked.len()), "{}", asked.len());
    assert!(gaps(&asked).iter().all(|gap| *gap >= DAY - MINUTE), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn other_names_are_ordered_at_once() {
    let world = World::new(&[Answer::Issue(90 * DAY)]);
    tokio::time::sleep(MINUTE).await;
    let stored = world.directory.path().join("state/authority.test_dir/a.test.pem");
    let text = std::fs::read_to_string(&stored).expect("stored");
    let other =
        world.fake.0.lock().expect("no panic").pem(&["a.test".to_owned()], (BEGIN, BEGIN + 90 * DAY), true);
    assert_ne!(text, other);
    std::fs::write(&stored, other).expect("written");
    let world = world.restart().await;
    assert_eq!(world.used(), [90], "better than none");
    tokio::time::sleep(MINUTE).await;
    assert_eq!(world.fake.asked().len(), 2);
}
