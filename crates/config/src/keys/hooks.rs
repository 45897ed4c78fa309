//! Keys of `[hooks]`.

use crate::section::section;
use crate::value::OnErrorChoice;

section! {
    /// Requests to a server of your own, which decides who publishes and plays, or gets
    /// notifications. Each URL is `http://` or `https://`, on any address, without user name and
    /// password; empty: no requests. See [hooks.md](hooks.md).
    Hooks = "hooks" {
        /// Asked before somebody publishes, after the check of the token.
        on_publish: String = String::new(), secret true,
        cost "A publisher waits for the answer.";

        /// Notified when a publisher that was let in has left.
        on_publish_end: String = String::new(), secret true,
        cost "One request for each.";

        /// Asked before somebody plays, after the check of the token. A viewer of HLS or DASH is
        /// asked about at its first request.
        on_play: String = String::new(), secret true,
        cost "A player waits for the answer.";

        /// Notified when a player that was let in has left.
        on_play_end: String = String::new(), secret true,
        cost "One request for each.";

        /// Notified when a recording begins and when it is complete. Needs `record.directory`.
        on_record: String = String::new(), secret true,
        cost "Two requests for each file.";

        /// Notified when a stream begins to be published on this node, by a client or by a source
        /// of the server, and when it ends.
        on_stream_state: String = String::new(), secret true,
        cost "Two requests for each publication.";

        /// Key of the HMAC-SHA256 signatures of all requests, 16 bytes or more. Needed with any of
        /// the URLs.
        secret: String = String::new(), secret true,
        cost "None.";

        /// File that holds the key, in place of `secret`.
        secret_file: String = String::new(),
        cost "None.";

        /// Time for an answer, everything included. Not longer than `limits.handshake_timeout_ms`.
        timeout_ms: i64 = 2_000, unit "ms", range 50..=30_000,
        cost "While your server hangs, everybody who joins waits this long.";

        /// Whether those are let in about whom no usable answer comes in time: `deny` refuses them
        /// and says that they may try again, `allow` lets them in.
        on_error: OnErrorChoice = OnErrorChoice::Deny,
        cost "With `deny`, nobody can publish or play while your server is away; with `allow`, \
            everybody can whom the tokens let in.";

        /// Requests with questions that are open at a time, about publishers and about players each;
        /// others wait for their turn. Each kind of event has 32 of its own.
        concurrency: i64 = 256, unit "requests", range 1..=4_096,
        cost "As many connections to your server, kept open for the next ones.";

        /// For how long players are collected before `on_play` asks about all of them in one
        /// request, at most 100. 0 asks about each alone.
        play_batch_ms: i64 = 0, unit "ms", range 0..=1_000,
        cost "Each player waits so much longer.";

        /// Events of one stream that may wait for your server. Beyond it, the oldest that waits is
        /// dropped and counted.
        queue_events: i64 = 100, unit "events", range 2..=10_000,
        cost "About 0.5 kB each. Of each kind of event, 65,536 of all streams may wait.";

        /// For how long an event is sent again when your server does not take it; then it is
        /// dropped, and the next one of the stream is sent.
        retry_seconds: i64 = 300, unit "s", range 0..=86_400,
        cost "Events behind it wait.";
    }
}
