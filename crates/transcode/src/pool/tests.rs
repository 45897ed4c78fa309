//! The pool with codecs that do as they are told, and once with a real one.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use media::{Codec, CodecConfig, CodedAudio};

use super::{
    Conversion, PIECES_MAX, Pool, PoolRefused, PoolSettings, PushError, Replies, Reply, Transcoder, Work,
};
use crate::{AacSettings, OpusSettings, PIECE_BYTES_MAX, TranscodeError, Unsupported};

/// Longer than anything here takes: a test that waits for it has failed.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A worker's side: what a waker wakes, and what comes back.
struct Worker {
    woken: Receiver<()>,
    replies: Arc<Replies>,
    inbox: VecDeque<Reply>,
}

impl Worker {
    fn new() -> Self {
        let (wake, woken) = channel();
        let replies = Replies::new(move || {
            let _ = wake.send(());
        });
        Self { woken, replies, inbox: VecDeque::new() }
    }

    fn next_reply(&mut self) -> Reply {
        loop {
            self.replies.take(&mut self.inbox);
            if let Some(reply) = self.inbox.pop_front() {
                return reply;
            }
            self.woken.recv_timeout(TIMEOUT).expect("something comes back");
        }
    }
}

/// Echoes a piece; what else it does is in the piece's first byte.
struct Echo {
    name: char,
    log: Arc<Mutex<String>>,
    gate: Receiver<()>,
}

const PLAIN: u8 = 0;
const WAIT_AT_GATE: u8 = 1;
const PANIC: u8 = 2;
const FAIL: u8 = 3;
const BREAK: u8 = 4;

impl Echo {
    fn boxed(name: char, log: &Arc<Mutex<String>>) -> (Box<dyn Work>, Sender<()>) {
        let (open, gate) = channel();
        (Box::new(Self { name, log: Arc::clone(log), gate }), open)
    }
}

impl Work for Echo {
    fn transcode(&mut self, piece: &CodedAudio, out: &mut Vec<CodedAudio>) -> Result<(), TranscodeError> {
        match piece.data[0] {
            WAIT_AT_GATE => self.gate.recv_timeout(TIMEOUT).unwrap(),
            PANIC => panic!("a codec that panics, for a test"),
            FAIL => return Err(TranscodeError::Unsupported(Unsupported::AacChannels)),
            BREAK => return Err(TranscodeError::Broken),
            _ => {}
        }
        self.log.lock().unwrap().push(self.name);
        out.push(piece.clone());
        Ok(())
    }
}

fn piece(what: u8) -> CodedAudio {
    CodedAudio { pts_us: 0, format: None, data: vec![what] }
}

fn pool(threads: usize, streams_max: usize) -> Pool {
    Pool::new(PoolSettings { threads, streams_max }, |_, run| Ok(std::thread::spawn(run)))
}

fn open(pool: &Pool, worker: &Worker, name: char, log: &Arc<Mutex<String>>) -> (Transcoder, Sender<()>) {
    let (echo, gate) = Echo::boxed(name, log);
    (pool.open_with(echo, u64::from(u32::from(name)), &worker.replies).unwrap(), gate)
}

/// Waits for a change that another thread is about to make.
fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        std::thread::yield_now();
    }
}

#[test]
fn a_full_queue_refuses_and_takes_again_when_there_is_room() {
    let (pool, mut worker, log) = (pool(1, 1), Worker::new(), Arc::default());
    let (mut transcoder, gate) = open(&pool, &worker, 'a', &log);
    transcoder.push(piece(WAIT_AT_GATE)).unwrap();
    let mut taken = 0;
    // The first may have left the queue for the codec, or not yet.
    while transcoder.push(piece(PLAIN)).is_ok() {
        taken += 1;
        assert!(taken <= PIECES_MAX);
    }
    assert!(taken >= PIECES_MAX - 1);
    gate.send(()).unwrap();
    let mut came = 0;
    while came < taken + 1 {
        came += worker.next_reply().audio.len();
    }
    assert_eq!(transcoder.push(piece(PLAIN)), Ok(()));
}

#[test]
fn pieces_longer_than_any_codec_makes_are_refused() {
    let (pool, worker, log) = (pool(1, 1), Worker::new(), Arc::default());
    let (mut transcoder, _gate) = open(&pool, &worker, 'a', &log);
    let oversized = CodedAudio { data: vec![0; PIECE_BYTES_MAX + 1], ..piece(PLAIN) };
    assert_eq!(transcoder.push(oversized), Err(PushError::Oversized));
}

#[test]
fn a_panic_ends_the_stream_it_happened_in_and_no_other() {
    let (pool, mut worker, log) = (pool(1, 2), Worker::new(), Arc::default());
    let (mut bad, _bad_gate) = open(&pool, &worker, 'b', &log);
    let (mut good, _good_gate) = open(&pool, &worker, 'g', &log);
    bad.push(piece(PANIC)).unwrap();
    let reply = worker.next_reply();
    assert_eq!((reply.token, reply.ended), (u64::from('b'), true));
    assert!(reply.error.is_some());
    until(|| bad.push(piece(PLAIN)) == Err(PushError::Ended));
    good.push(piece(PLAIN)).unwrap();
    let reply = worker.next_reply();
    assert_eq!((reply.token, reply.audio.len(), reply.ended), (u64::from('g'), 1, false));
    // And the seat is free again.
    until(|| pool.load() == [1]);
    open(&pool, &worker, 'n', &log);
}

#[test]
fn a_stream_with_much_to_do_does_not_keep_another_waiting() {
    let (pool, mut worker, log) = (pool(1, 2), Worker::new(), Arc::default());
    let (mut busy, gate) = open(&pool, &worker, 'b', &log);
    busy.push(piece(WAIT_AT_GATE)).unwrap();
    (0..100).for_each(|_| busy.push(piece(PLAIN)).unwrap());
    let (mut other, _gate) = open(&pool, &worker, 'o', &log);
    other.push(piece(PLAIN)).unwrap();
    gate.send(()).unwrap();
    let mut came = 0;
    while came < 102 {
        came += worker.next_reply().audio.len();
    }
    let position = log.lock().unwrap().find('o').unwrap();
    assert!(position <= 2, "{position} pieces of the other stream first");
}

#[test]
fn streams_are_bounded_and_a_closed_one_makes_room() {
    let (pool, worker, log) = (pool(2, 3), Worker::new(), Arc::default());
    let opened: Vec<_> = ['a', 'b', 'c'].iter().map(|name| open(&pool, &worker, *name, &log)).collect();
    let mut load = pool.load();
    load.sort_unstable();
    assert_eq!(load, [1, 2], "spread over both threads");
    let (echo, _gate) = Echo::boxed('d', &log);
    assert_eq!(pool.open_with(echo, 4, &worker.replies).unwrap_err(), PoolRefused::TooManyStreams);
    drop(opened);
    until(|| pool.load().is_empty());
    open(&pool, &worker, 'd', &log);
}

#[test]
fn a_thread_ends_with_its_last_stream_and_another_begins_with_the_next() {
    let (pool, mut worker, log) = (pool(1, 8), Worker::new(), Arc::default());
    assert!(pool.load().is_empty(), "no thread without a stream");
    for _ in 0..50 {
        let (mut transcoder, _gate) = open(&pool, &worker, 'a', &log);
        transcoder.push(piece(PLAIN)).unwrap();
        assert_eq!(worker.next_reply().audio.len(), 1);
        drop(transcoder);
        until(|| pool.load().is_empty());
    }
}

#[test]
fn what_cannot_be_decoded_is_counted_and_a_lasting_reason_told_once() {
    let (pool, mut worker, log) = (pool(1, 1), Worker::new(), Arc::default());
    let (mut transcoder, _gate) = open(&pool, &worker, 'a', &log);
    for what in [FAIL, FAIL, BREAK, FAIL, PLAIN] {
        transcoder.push(piece(what)).unwrap();
    }
    let first = worker.next_reply();
    assert!(first.error.is_some_and(|error| error.contains("more than two channels")), "{first:?}");
    assert_eq!((first.broken, first.ended), (1, false));
    let second = worker.next_reply();
    assert_eq!((second.error, second.broken, second.audio.len()), (None, 3, 1));
}

#[test]
fn replies_nobody_takes_are_bounded_and_their_loss_is_counted() {
    let (pool, mut worker, log) = (pool(1, 1), Worker::new(), Arc::default());
    let (mut transcoder, gate) = open(&pool, &worker, 'a', &log);
    let mut pushed = 0;
    // Until more are done than are kept, and one waits at the gate.
    while pushed < 9_000 {
        match transcoder.push(piece(PLAIN)) {
            Ok(()) => pushed += 1,
            Err(error) => {
                assert_eq!(error, PushError::Full);
                std::thread::yield_now();
            }
        }
    }
    until(|| log.lock().unwrap().len() == pushed);
    // The thread may still be at its last reply; the gate's piece comes after it, and so does room for its
    // reply.
    until(|| transcoder.push(piece(WAIT_AT_GATE)).is_ok());
    let mut came = 0;
    while came < 8_192 {
        came += worker.next_reply().audio.len();
    }
    gate.send(()).unwrap();
    let last = worker.next_reply();
    assert_eq!(came as u64 + last.dropped, pushed as u64);
    assert_eq!(last.audio.len(), 1);
}

#[test]
fn aac_comes_back_as_opus_with_its_format_and_its_cost() {
    let aac = include_bytes!("../../tests/samples/aac-48000-stereo.aac");
    let (pool, mut worker) = (pool(1, 1), Worker::new());
    let mut transcoder =
        pool.open(Conversion::ToOpus(OpusSettings { bits_per_second: 96_000 }), 7, &worker.replies).unwrap();
    let config =
        CodecConfig { codec: Codec::Aac, record: vec![0x11, 0x90], sample_rate: 48_000, channels: 2 };
    let mut format = Some(Arc::new(config));
    let (mut rest, mut pts_us) = (&aac[..], 0);
    while rest.len() > 7 {
        let length = usize::from(rest[3] & 3) << 11 | usize::from(rest[4]) << 3 | usize::from(rest[5] >> 5);
        let data = rest[7..length].to_vec();
        transcoder.push(CodedAudio { pts_us, format: format.take(), data }).unwrap();
        rest = &rest[length..];
        pts_us += 21_333;
    }
    let mut audio: Vec<CodedAudio> = Vec::new();
    let mut cpu = Duration::ZERO;
    while audio.last().is_none_or(|piece| piece.pts_us < 1_400_000) {
        let reply = worker.next_reply();
        assert_eq!((reply.token, reply.broken, &reply.error), (7, 0, &None));
        audio.extend(reply.audio);
        cpu += reply.cpu;
    }
    assert_eq!(audio[0].format.as_ref().unwrap().codec, Codec::Opus);
    assert!(audio.windows(2).all(|pair| pair[1].pts_us - pair[0].pts_us == 20_000));
    assert!(cpu > Duration::ZERO);
}

#[test]
fn aac_is_encoded_only_where_that_is_built_in() {
    let (pool, worker) = (pool(1, 1), Worker::new());
    let opened = pool.open(Conversion::ToAac(AacSettings { bits_per_second: 128_000 }), 1, &worker.replies);
    if cfg!(feature = "fdk-aac") {
        opened.unwrap();
    } else {
        assert_eq!(opened.unwrap_err(), PoolRefused::NotBuiltIn);
    }
}
