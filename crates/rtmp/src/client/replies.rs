//! What the server says to a client, and what follows from it.

use super::super::RtmpError;
use super::super::amf0::RawValue;
use super::super::command::Command;
use super::super::enhanced::is_announced;
use super::super::message::Message;
use super::{CONNECT, CREATE_STREAM, ClientEvent, ClientSession, Stage};

impl ClientSession {
    pub(super) fn handle_command(&mut self, message: &Message) -> Result<(), RtmpError> {
        let command = Command::parse(message)?;
        match (&*command.name, self.stage) {
            (_, Stage::Over) => {}
            ("_result", Stage::Connecting) if command.transaction == CONNECT => {
                // In the properties or in the information, as servers differ.
                let mut values = [command.object].into_iter().chain(command.arguments);
                self.server_is_enhanced = values.any(is_announced);
                self.send_create_stream();
            }
            ("_result", Stage::CreatingStream) if command.transaction == CREATE_STREAM => {
                self.stream_id = command.number(0).unwrap_or(1.0) as u32;
                self.send_start();
            }
            // Servers that do not know releaseStream or FCPublish say so; only these two must succeed.
            ("_error", _) if [CONNECT, CREATE_STREAM].contains(&command.transaction) => {
                self.handle_refusal(&command)
            }
            ("onStatus", _) => self.handle_status(&command),
            _ => {}
        }
        Ok(())
    }

    fn handle_status(&mut self, command: &Command<'_>) {
        let (code, description) = information(command);
        let level = command.arguments[0].get("level").and_then(RawValue::as_str);
        let is_error = level.as_deref() == Some("error");
        match (&*code, self.stage) {
            ("NetStream.Publish.Start" | "NetStream.Play.Start", Stage::Starting) => {
                self.stage = Stage::Started;
                self.events.push_back(ClientEvent::Started);
            }
            (_, Stage::Started) if is_error || is_end(&code) => {
                self.stage = Stage::Over;
                self.events.push_back(ClientEvent::Ended { code });
            }
            (_, Stage::Started) => self.events.push_back(ClientEvent::Status { code, description }),
            _ if is_error || is_end(&code) => self.handle_refusal(command),
            // Play.Reset and the like on the way to the start.
            _ => {}
        }
    }

    fn handle_refusal(&mut self, command: &Command<'_>) {
        let (code, description) = information(command);
        self.stage = Stage::Over;
        self.events.push_back(ClientEvent::Rejected { code, description });
    }
}

fn is_end(code: &str) -> bool {
    matches!(
        code,
        "NetStream.Play.Stop"
            | "NetStream.Play.Complete"
            | "NetStream.Unpublish.Success"
            | "NetConnection.Connect.Closed"
    )
}

/// Code and description of the information object, which is the first argument.
fn information(command: &Command<'_>) -> (String, String) {
    let property = |name: &str| command.arguments[0].get(name).and_then(RawValue::as_str);
    let code = property("code").unwrap_or("NetConnection.Call.Failed".into());
    (code.into_owned(), property("description").unwrap_or_default().into_owned())
}
