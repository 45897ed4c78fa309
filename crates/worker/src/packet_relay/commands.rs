//! Commands from the thread of `nodes`, which has the links to other nodes.

use std::net::SocketAddr;

use relay::{LinkSecret, Role, SetupError};

use super::{Ends, Link, PacketRelay};
use crate::context::Context;
use crate::event_loop::Worker;
use crate::registry::StreamId;
use worker_api::relay::{LinkId, RelayCommand, RelayRefusal};

impl Worker {
    /// Carries out a command. The answer is lost if the task that asked for it has ended.
    pub(crate) fn handle_relay_command(&mut self, command: RelayCommand) {
        let Some(relay) = &mut self.relay else { return command.refuse(RelayRefusal::NoRelay) };
        match command {
            RelayCommand::Notify { notices } => relay.notices = Some(notices),
            RelayCommand::AddLink { link, secret, role, address, reply } => {
                let _ = reply.send(relay.add_link(&self.ctx, link, (secret, role), address));
            }
            RelayCommand::RemoveLink { link } => relay.remove_link(&self.ctx, link),
            RelayCommand::Offer { stream, reply } => {
                let _ = reply.send(self.offer(&stream));
            }
            RelayCommand::Serve { link, stream, epoch, handle, from, reply } => {
                let id = relay.id_of(&self.ctx, &stream).ok_or(RelayRefusal::NoStream);
                let _ = reply.send(id.and_then(|id| relay.serve(&self.ctx, (id, epoch), link, handle, from)));
            }
            RelayCommand::StopServing { link, stream } => {
                if let Some(id) = relay.id_of(&self.ctx, &stream) {
                    relay.stop_serving(self.ctx.now, link, Some(id));
                }
            }
            RelayCommand::NewKey { stream, reply } => {
                let id = relay.id_of(&self.ctx, &stream).ok_or(RelayRefusal::NoStream);
                let _ = reply.send(id.and_then(|id| relay.new_key(id)));
            }
            RelayCommand::UseNewKey { stream, epoch, reply } => {
                let id = relay.id_of(&self.ctx, &stream).ok_or(RelayRefusal::NoStream);
                let _ = reply.send(id.and_then(|id| relay.use_new_key(id, epoch)));
            }
            RelayCommand::Fetch { link, stream, tracks, keys, reply } => {
                let fetched = self.fetch(link, &stream, tracks, keys);
                // If nobody waits for the answer any more, nobody will end the publication.
                if let Err(Ok(fetched)) = reply.send(fetched) {
                    self.end_fetch_of(&stream, fetched.epoch);
                }
            }
            RelayCommand::AddParent { link, stream, reply } => {
                let id = relay.id_of(&self.ctx, &stream).ok_or(RelayRefusal::NoStream);
                let _ = reply.send(id.and_then(|id| relay.add_parent(&self.ctx, id, link)));
            }
            RelayCommand::RemoveParent { link, stream } => {
                if let Some(id) = relay.id_of(&self.ctx, &stream) {
                    relay.remove_parent(&self.ctx, link, Some(id));
                }
            }
            RelayCommand::AddKey { stream, key, reply } => {
                let id = relay.id_of(&self.ctx, &stream).ok_or(RelayRefusal::NoStream);
                let _ = reply.send(id.and_then(|id| relay.add_key(&self.ctx, id, key)));
            }
            RelayCommand::EndFetch { stream, epoch } => self.end_fetch_of(&stream, epoch),
            RelayCommand::Statistics { reply } => {
                let _ = reply.send(Ok(relay.stats()));
            }
        }
    }
}

impl PacketRelay {
    pub(super) fn id_of(&self, ctx: &Context, stream: &str) -> Option<StreamId> {
        let (id, _) = ctx.directory.home(stream)?;
        (self.served.contains_key(&id) || self.fetched.contains_key(&id)).then_some(id)
    }

    fn add_link(
        &mut self,
        ctx: &Context,
        link: LinkId,
        (secret, role): (LinkSecret, Role),
        address: SocketAddr,
    ) -> Result<(), RelayRefusal> {
        self.remove_link(ctx, link);
        let (to, from) = secret.split(role);
        let out = self.sender.add_link(ctx.now, to)?;
        let into = self.receiver.add_link(ctx.now, from).inspect_err(|_| self.sender.remove_link(out))?;
        let ends = Ends { out, into };
        if !self.port.bind(address, ends, out) {
            self.sender.remove_link(out);
            self.receiver.remove_link(into);
            return Err(SetupError::Full.into());
        }
        let len = self.back.len().max(into.index() + 1);
        self.back.resize(len, None);
        self.back[into.index()] = Some(out);
        self.links.insert(link, Link { ends, address });
        tracing::debug!(?link, %address, "link to a node");
        Ok(())
    }

    fn remove_link(&mut self, ctx: &Context, link: LinkId) {
        self.stop_serving(ctx.now, link, None);
        self.remove_parent(ctx, link, None);
        let Some(Link { ends, address }) = self.links.remove(&link) else { return };
        self.port.unbind(address, ends.out, |known| known == ends);
        self.back[ends.into.index()] = None;
        self.sender.remove_link(ends.out);
        self.receiver.remove_link(ends.into);
        tracing::debug!(?link, %address, "link to a node removed");
    }
}
