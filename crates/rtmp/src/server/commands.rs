//! The peer's commands (Adobe RTMP 1.0 sections 7.2.1 and 7.2.2, and those of Flash Media Live Encoder).

use super::super::RtmpError;
use super::super::amf0::{RawValue, Value};
use super::super::command::{self, Command};
use super::super::connection::{STREAM_BEGIN, STREAM_EOF};
use super::super::enhanced;
use super::super::message::Message;
use super::super::name::{self, NameError};
use super::{ConnectRequest, PlayRequest, PublishRequest, ServerEvent, ServerSession, Stage};

/// What is remembered of `connect` for its reply.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ConnectReply {
    pub(super) transaction: f64,
    /// 0 for AMF0, 3 for AMF3. Both get AMF0 in reply, which AMF3 includes.
    pub(super) object_encoding: u8,
    pub(super) enhanced: bool,
}

impl ServerSession {
    /// The centre of the session: each command, and what it may do in which stage.
    pub(super) fn handle_command(&mut self, message: &Message) -> Result<(), RtmpError> {
        let command = Command::parse(message)?;
        let is_connect = command.name == "connect";
        if is_connect != (self.stage == Stage::Fresh) {
            return Err(RtmpError::CommandOutOfOrder);
        }
        match &*command.name {
            "connect" => return self.handle_connect(&command),
            "publish" => return self.handle_publish(&command),
            "play" => return self.handle_play(&command),
            "createStream" => self.reply(&command, Value::Number(f64::from(STREAM_ID))),
            "getStreamLength" => self.reply(&command, Value::Number(0.0)),
            "releaseStream" | "FCPublish" | "_checkbw" => self.reply(&command, Value::Undefined),
            "FCSubscribe" => {
                self.send_connection_event("onFCSubscribe", "NetStream.Play.Start", &command.text(0))
            }
            "FCUnpublish" => {
                self.send_connection_event("onFCUnpublish", "NetStream.Unpublish.Success", &command.text(0));
                self.reply(&command, Value::Undefined);
                self.handle_stream_end();
            }
            "deleteStream" | "closeStream" => self.handle_stream_end(),
            "pause" | "pauseRaw" => self.handle_pause(&command),
            "seek" => self.status("error", "NetStream.Seek.Failed", "A live stream cannot be sought in."),
            // Players go on getting both: the bytes are shared. Replies and statuses need no reply.
            "receiveAudio" | "receiveVideo" | "_result" | "_error" | "onStatus" => {}
            _ => self.refuse_call(&command),
        }
        Ok(())
    }

    fn handle_connect(&mut self, command: &Command<'_>) -> Result<(), RtmpError> {
        let text =
            |name: &str| command.object.get(name).and_then(RawValue::as_str).unwrap_or_default().into_owned();
        let app = text("app");
        let (app, query) = match self.config.names.split_app(&app) {
            Ok(split) => split,
            Err(error) => {
                self.stage = Stage::Closed;
                let description = format!("The application name is not valid: {error}.");
                self.send_connect_error(command.transaction, &description);
                return Err(RtmpError::NameInvalid);
            }
        };
        self.app_bytes = app.len();
        let tc_url = text("tcUrl");
        let tc_query = tc_url.split_once('?').map_or("", |(_, query)| query);
        let query =
            if query.is_empty() && name::is_valid_query(tc_query) { tc_query } else { query }.to_owned();
        let object_encoding =
            command.object.get("objectEncoding").and_then(RawValue::as_number).unwrap_or(0.0) as u8;
        self.stage = Stage::ConnectAsked(ConnectReply {
            transaction: command.transaction,
            object_encoding,
            enhanced: enhanced::is_announced(command.object),
        });
        self.events.push_back(ServerEvent::Connect(Box::new(ConnectRequest {
            app: app.to_owned(),
            query,
            flash_version: text("flashVer"),
        })));
        Ok(())
    }

    fn handle_publish(&mut self, command: &Command<'_>) -> Result<(), RtmpError> {
        if self.stage != Stage::Connected {
            self.status(
                "error",
                "NetStream.Publish.BadName",
                "This session already publishes or plays a stream.",
            );
            return Ok(());
        }
        let text = command.text(0);
        let (name, query) = self.split_name(&text, "NetStream.Publish.BadName")?;
        self.stage = Stage::PublishAsked;
        self.events.push_back(ServerEvent::Publish(Box::new(PublishRequest {
            name: name.to_owned(),
            query: query.to_owned(),
            mode: command.text(1).into_owned(),
        })));
        Ok(())
    }

    fn handle_play(&mut self, command: &Command<'_>) -> Result<(), RtmpError> {
        if self.stage != Stage::Connected {
            self.status(
                "error",
                "NetStream.Play.Failed",
                "This session already publishes or plays a stream.",
            );
            return Ok(());
        }
        let text = command.text(0);
        let (name, query) = self.split_name(&text, "NetStream.Play.StreamNotFound")?;
        self.stage = Stage::PlayAsked { reset: command.boolean(3).unwrap_or(true) };
        self.events.push_back(ServerEvent::Play(Box::new(PlayRequest {
            name: name.to_owned(),
            query: query.to_owned(),
            start: command.number(1).unwrap_or(-2.0),
            duration: command.number(2).unwrap_or(-1.0),
        })));
        Ok(())
    }

    /// The stream that a command names, and its query; what is wrong with it is said under `code`.
    fn split_name<'a>(&mut self, text: &'a str, code: &str) -> Result<(&'a str, &'a str), RtmpError> {
        let split = self.config.names.split_name(text).and_then(|(name, query)| {
            // What comes before the last slash is added to the application, behind a slash (`stream_of`).
            let app_bytes = self.app_bytes + name.rfind('/').map_or(0, |at| at + 1);
            if app_bytes <= name::NAME_BYTES_MAX { Ok((name, query)) } else { Err(NameError::TooLong) }
        });
        split.map_err(|error| {
            self.status("error", code, &format!("The stream name is not valid: {error}."));
            RtmpError::NameInvalid
        })
    }

    fn handle_pause(&mut self, command: &Command<'_>) {
        if self.stage != Stage::Playing {
            return;
        }
        let paused = command.boolean(0).unwrap_or(true);
        let at_ms = command.number(1).unwrap_or(0.0) as u32;
        if paused {
            self.status("status", "NetStream.Pause.Notify", "Paused.");
            self.connection.user_control(STREAM_EOF, STREAM_ID);
        } else {
            self.connection.user_control(STREAM_BEGIN, STREAM_ID);
            self.status("status", "NetStream.Unpause.Notify", "Playing on.");
        }
        self.events.push_back(ServerEvent::Pause { paused, at_ms });
    }

    /// Of `FCUnpublish`, `closeStream` and `deleteStream` an encoder sends one or all.
    fn handle_stream_end(&mut self) {
        match self.stage {
            Stage::Publishing => {
                self.status("status", "NetStream.Unpublish.Success", "The stream is no longer published.");
            }
            Stage::Playing => {}
            _ => return,
        }
        self.enter(Stage::Connected);
        self.events.push_back(ServerEvent::StreamEnded);
    }

    fn reply(&mut self, command: &Command<'_>, value: Value) {
        command::send(&mut self.connection, 0, "_result", command.transaction, &[Value::Null, value]);
    }

    fn refuse_call(&mut self, command: &Command<'_>) {
        if command.transaction != 0.0 {
            let information =
                command::information("error", "NetConnection.Call.Failed", "There is no such command.");
            command::send(
                &mut self.connection,
                0,
                "_error",
                command.transaction,
                &[Value::Null, information],
            );
        }
    }
}

/// Message stream that each `createStream` gets, as from SRS and nginx-rtmp: a session publishes or plays
/// one stream, and played messages are then the same bytes for every player.
pub(super) const STREAM_ID: u32 = 1;
