//! What the control side asks of a worker, by its queue of commands.

use std::time::Duration;

use crate::event_loop::Worker;
use crate::proto::session::Session;
use worker_api::EndReason;
use worker_api::command::Command;

impl Worker {
    /// Does what the control side asks for.
    pub(crate) fn handle_commands(&mut self) {
        while let Ok(command) = self.control.commands.try_recv() {
            match command {
                Command::Snapshot { sessions, reply } => {
                    // The asker may have given up waiting.
                    let _ = reply.send(self.snapshot(&sessions));
                }
                // No answer, which is for later: another process has it, or it is not decided yet.
                Command::Kick { session, .. } | Command::RtcClose { session, .. }
                    if self.packets.has_gone(session) || self.connections.has_gone(session) => {}
                Command::RtcPatch { session, .. } | Command::RtcLayer { session, .. }
                    if self.packets.is_handed_over(session) => {}
                Command::Kick { session, reply } => {
                    let is_it = |other: &Session| other.id == session && other.closing_at_ms.is_none();
                    let found = self
                        .connections
                        .sessions
                        .iter()
                        .find(|(_, other)| is_it(other))
                        .map(|(conn, _)| conn);
                    if let Some(conn) = found {
                        self.end(conn, EndReason::Kicked);
                    }
                    let kicked =
                        found.is_some() || self.packets.close(&mut self.ctx, session, EndReason::Kicked);
                    let _ = reply.send(kicked);
                }
                Command::Publish(publish) => self.publish_internal(*publish),
                Command::Tap(tap) => self.play_internal(*tap),
                Command::EndPublication { key, epoch, reason, reply } => {
                    let _ = reply.send(self.end_publisher(&key, epoch, reason));
                }
                Command::RtcOpen(open) => self.open_session(*open),
                Command::RtcPatch { session, patch, reply } => {
                    let _ = reply.send(self.packets.patch(&mut self.ctx, session, patch));
                }
                Command::RtcLayer { session, request, reply } => {
                    let _ = reply.send(self.packets.choose_layer(&mut self.ctx, session, request));
                }
                Command::RtcClose { session, reply } => {
                    let _ = reply.send(self.packets.close(&mut self.ctx, session, EndReason::ClosedByClient));
                }
                Command::Relay(command) => self.handle_relay_command(*command),
                Command::Hold { period, with_datagrams, reply } => {
                    let until_ms = self.ctx.now_ms + period.as_millis() as u64;
                    self.acceptor.hold(until_ms);
                    // The first such command stops reading; the next ones also keep transcoded audio
                    // back, so that all that was sent has arrived when sessions are handed over.
                    self.bridges.is_held = with_datagrams && self.datagrams_wait();
                    self.datagrams_wait_until_ms = if with_datagrams { until_ms } else { 0 };
                    self.hold_answers.push((reply, self.connections.undecided(self.ctx.now_ms)));
                }
                Command::HandOver { reply } => {
                    let _ = reply.send(self.hand_over());
                }
                Command::LetGo { sessions, reply } => {
                    let _ = reply.send(self.let_go(&sessions));
                }
                Command::Resume { sessions, reply } => {
                    let _ = reply.send(self.resume(sessions));
                }
                Command::GoOn { ended, reply } => {
                    self.go_on_with_sessions(&ended);
                    let _ = reply.send(());
                }
                Command::Drain { deadline } => self.drain(deadline),
            }
            self.carry_out_actions();
        }
    }

    /// Accepts no new sessions, and ends when all have left, or at the deadline.
    pub(crate) fn drain(&mut self, deadline: Duration) {
        self.acceptor.stop(&self.ctx.events);
        self.packets.stop_listening(&self.ctx.events);
        self.ctx.mailboxes.fullness().close();
        self.idle.clear();
        self.ctx.draining_until = Some(self.ctx.now_ms + deadline.as_millis() as u64);
        self.packets.forget_gone(self.ctx.now);
        self.connections.forget_gone(self.ctx.now);
        self.sweep();
    }

    /// Answers [`Command::Hold`] at the end of the turn, when what this one has for other workers is on its way.
    /// Answered earlier, the next command could hand sessions over before what others sent has been read.
    pub(crate) fn answer_holds(&mut self) {
        for (reply, undecided) in self.hold_answers.drain(..) {
            let _ = reply.send(undecided);
        }
    }
}

#[cfg(all(test, not(feature = "simulated")))]
mod tests {
    use std::sync::mpsc::sync_channel;

    use tokio::sync::oneshot;

    use super::*;
    use crate::packets::panic_tests::workers;
    use worker_api::settings::WorkerSettings;

    #[test]
    fn what_is_held_back_is_answered_when_the_turn_is_over() {
        let mut worker = workers(WorkerSettings::default(), vec![Vec::new()]).remove(0).0;
        let (commands, queue) = sync_channel(1);
        worker.control.commands = queue;
        let (reply, mut answer) = oneshot::channel();
        let period = Duration::from_secs(1);
        commands.send(Command::Hold { period, with_datagrams: true, reply }).expect("room");
        worker.handle_commands();
        assert!(answer.try_recv().is_err(), "what it has for other workers has not left yet");
        worker.turn(&[]);
        assert_eq!(answer.try_recv(), Ok(0));
    }
}
