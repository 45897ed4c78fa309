//! What the session says to its peer: answers to its questions, statuses, farewells.

use super::super::amf0::Value;
use super::super::chunk::PLAY_CHUNK_SIZE;
use super::super::command;
use super::super::connection::{STREAM_BEGIN, STREAM_EOF};
use super::super::enhanced;
use super::super::message::SET_PEER_BANDWIDTH;
use super::commands::{ConnectReply, STREAM_ID};
use super::{PlayReject, PublishReject, ServerSession, Stage};

impl ServerSession {
    /// Accepts the application. Ignored unless [`ServerEvent::Connect`](super::ServerEvent) was last asked.
    pub fn accept_connect(&mut self) {
        let Stage::ConnectAsked(reply) = self.stage else { return };
        let window = self.config.window_ack_bytes;
        self.connection.announce_window(window);
        let [a, b, c, d] = window.to_be_bytes();
        self.connection.control(SET_PEER_BANDWIDTH, &[a, b, c, d, LIMIT_DYNAMIC]);
        self.connection.announce_chunk_size(PLAY_CHUNK_SIZE);
        self.send_connect_result(reply);
        command::send(&mut self.connection, 0, "onBWDone", 0.0, &[Value::Null]);
        self.answer(Stage::Connected);
    }

    /// Accepts the publisher: its media follows as events.
    pub fn accept_publish(&mut self) {
        if self.stage != Stage::PublishAsked {
            return;
        }
        self.connection.user_control(STREAM_BEGIN, STREAM_ID);
        self.send_connection_event("onFCPublish", "NetStream.Publish.Start", "");
        self.status("status", "NetStream.Publish.Start", "The stream is being published.");
        self.answer(Stage::Publishing);
    }

    /// Refuses the publisher; what it sends meanwhile is dropped. It may ask again.
    pub fn reject_publish(&mut self, code: PublishReject, description: &str) {
        if self.stage != Stage::PublishAsked {
            return;
        }
        let code = match code {
            PublishReject::BadName => "NetStream.Publish.BadName",
            PublishReject::Unauthorized => "NetStream.Publish.Unauthorized",
            PublishReject::Overloaded => CONNECT_REJECTED,
        };
        self.status("error", code, description);
        self.answer(Stage::Connected);
    }

    /// Accepts the player. Media may be written behind the output from now on; there need be none yet.
    pub fn accept_play(&mut self) {
        let Stage::PlayAsked { reset } = self.stage else { return };
        self.connection.user_control(STREAM_BEGIN, STREAM_ID);
        if reset {
            self.status("status", "NetStream.Play.Reset", "Playing and resetting the stream.");
        }
        self.status("status", "NetStream.Play.Start", "The stream begins.");
        // No data messages here: ffmpeg makes a track of each it does not know, and its muxers wait for more
        // of that track. `|RtmpSampleAccess` is for Flash programs that read pixels, and
        // `NetStream.Data.Start` is waited for by no player.
        self.answer(Stage::Playing);
    }

    /// Refuses the player. It may ask again.
    pub fn reject_play(&mut self, code: PlayReject, description: &str) {
        let Stage::PlayAsked { .. } = self.stage else { return };
        let code = match code {
            PlayReject::StreamNotFound => "NetStream.Play.StreamNotFound",
            PlayReject::Unauthorized => "NetStream.Play.Failed",
            PlayReject::Overloaded => CONNECT_REJECTED,
        };
        self.status("error", code, description);
        self.answer(Stage::Connected);
    }

    /// Sends the player to another server, by the URLs of its application and of the stream: as Adobe's
    /// servers do for a connection, with a code as of HTTP. The URL of the stream is what SRS adds.
    pub fn redirect_play(&mut self, (connection, stream): (&str, &str), description: &str) {
        let Stage::PlayAsked { .. } = self.stage else { return };
        let moved = command::object(&[
            ("code", Value::Number(REDIRECT_CODE)),
            ("redirect", connection.into()),
            ("redirect2", stream.into()),
        ]);
        let information = command::object(&[
            ("level", "error".into()),
            ("code", CONNECT_REJECTED.into()),
            ("description", description.into()),
            ("ex", moved),
        ]);
        command::send(&mut self.connection, 0, "onStatus", 0.0, &[Value::Null, information]);
        self.answer(Stage::Connected);
    }

    /// Tells the peer that the server ends this session, or that it refuses the application; the caller
    /// flushes and closes.
    pub fn close(&mut self, description: &str) {
        match self.stage {
            Stage::Publishing => self.status("status", "NetStream.Unpublish.Success", description),
            Stage::Playing => {
                self.connection.user_control(STREAM_EOF, STREAM_ID);
                self.status("status", "NetStream.Play.Stop", description);
            }
            Stage::ConnectAsked(reply) => self.send_connect_error(reply.transaction, description),
            Stage::Connected | Stage::PublishAsked | Stage::PlayAsked { .. } => {
                command::send_status(
                    &mut self.connection,
                    0,
                    "status",
                    "NetConnection.Connect.Closed",
                    description,
                );
            }
            Stage::Fresh | Stage::Closed => {}
        }
        self.stage = Stage::Closed;
        self.waiting.clear();
        self.waiting_bytes = 0;
    }

    /// Sends a status of the stream.
    pub(super) fn status(&mut self, level: &str, code: &str, description: &str) {
        command::send_status(&mut self.connection, STREAM_ID, level, code, description);
    }

    /// Calls one of the `onFC*` functions that Flash Media Live Encoder waits for.
    pub(super) fn send_connection_event(&mut self, function: &str, code: &str, description: &str) {
        let information = command::object(&[("code", code.into()), ("description", description.into())]);
        command::send(&mut self.connection, 0, function, 0.0, &[Value::Null, information]);
    }

    /// The `_error` of a connect command.
    pub(super) fn send_connect_error(&mut self, transaction: f64, description: &str) {
        let information = command::information("error", CONNECT_REJECTED, description);
        command::send(&mut self.connection, 0, "_error", transaction, &[Value::Null, information]);
    }

    fn send_connect_result(&mut self, reply: ConnectReply) {
        let mut properties = vec![("fmsVer", "FMS/4,5,0,297".into()), ("capabilities", Value::Number(255.0))];
        let mut information = vec![
            ("level", "status".into()),
            ("code", "NetConnection.Connect.Success".into()),
            ("description", "Connection succeeded.".into()),
            ("objectEncoding", Value::Number(f64::from(reply.object_encoding))),
        ];
        // Enhanced RTMP v2 leaves open which of the two objects carries them; peers read either.
        if reply.enhanced {
            properties.extend(enhanced::forward_anything());
            information.extend(enhanced::forward_anything());
        }
        let values = [command::object(&properties), command::object(&information)];
        command::send(&mut self.connection, 0, "_result", reply.transaction, &values);
    }
}

/// This server does not take a client, which may go to another.
const CONNECT_REJECTED: &str = "NetConnection.Connect.Rejected";
/// That the client is to go to the URL beside it.
const REDIRECT_CODE: f64 = 302.0;
/// Limit type of Set Peer Bandwidth (5.4.5): as the last one said, or none.
const LIMIT_DYNAMIC: u8 = 2;
