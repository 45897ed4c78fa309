//! What a reload does to pulls, pushes and channels.
//!
//! Those of the configuration that it has no more end, those that are otherwise begin again, new ones begin;
//! all others go on untouched. What the API has added stays, and if it is what the configuration wants, it is
//! left alone. Everything that could be in the way is looked for before anything changes: the control side
//! has one thread, so nobody adds anything in between. Pulls that a pattern begins give way.

use config::error::{ConfigError, Origin};
use config::resolve::Resolved;
use config::{ChannelledEntry, Config, PulledEntry};
use control::Context;
use pushes::PushSpec;
use sources::channels::ChannelSpec;
use sources::pull::PullSpec;
use sources::settings::AddedBy;

/// What ends and what begins.
#[derive(Debug)]
pub(super) struct Plan {
    pulls: Changes<PullSpec>,
    channels: Changes<ChannelSpec>,
    pushes: Changes<PushSpec>,
    /// Numbers of the pushes that end.
    push_ids: Vec<u64>,
    /// All pulls of the configuration, in its order.
    order: Vec<PullSpec>,
}

/// Of one kind.
#[derive(Debug)]
struct Changes<S> {
    end: Vec<S>,
    begin: Vec<S>,
}

/// What has come of it, by names.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) started: Vec<String>,
    pub(super) restarted: Vec<String>,
    pub(super) ended: Vec<String>,
    /// With the reasons.
    pub(super) failed: Vec<String>,
}

impl Plan {
    /// Compares what runs with what `resolved` wants. The error has all that is in the way.
    pub(super) fn new(context: &Context, config: &Config, resolved: &Resolved) -> Result<Self, Vec<String>> {
        let mut errors = Vec::new();
        let pulls: Vec<_> =
            context.pulls.added().iter().map(|pull| (pull.spec.clone(), pull.added_by)).collect();
        let channels: Vec<_> =
            context.channels.views().iter().map(|view| ((*view.spec).clone(), view.added_by)).collect();
        let rules = context.pushes.list();
        let pushes: Vec<_> = rules.iter().map(|rule| ((*rule.spec).clone(), rule.added_by)).collect();

        // What a pattern has begun is not in the way: it gives way.
        for spec in &resolved.pulls {
            let mut refuse = |reason| {
                let is_it = |entry: &&PulledEntry| is_stream(&entry.pull.stream, &spec.app, &spec.name);
                let origin = config.pulls.iter().find(is_it).map(|entry| &entry.origin);
                errors.push(in_the_way(origin, "[[pull]]", &spec.app, &spec.name, reason));
            };
            let mut others = pulls.iter().filter(|(other, by)| is_by_api(*by) && other != spec);
            if others.any(|(other, _)| (&other.app, &other.name) == (&spec.app, &spec.name)) {
                refuse("another pull was added by the API");
            }
            if channels.iter().any(|(channel, by)| is_by_api(*by) && is_channel(channel, spec)) {
                refuse("a channel was added by the API");
            }
        }
        for spec in &resolved.channels {
            let mut refuse = |reason| {
                let is_it =
                    |entry: &&ChannelledEntry| is_stream(&entry.channel.stream, &spec.app, &spec.name);
                let origin = config.channels.iter().find(is_it).map(|entry| &entry.origin);
                errors.push(in_the_way(origin, "[[channel]]", &spec.app, &spec.name, reason));
            };
            let mut others = channels.iter().filter(|(other, by)| is_by_api(*by) && other != spec);
            if others.any(|(other, _)| (&other.app, &other.name) == (&spec.app, &spec.name)) {
                refuse("another channel was added by the API");
            }
            if pulls.iter().any(|(pull, by)| is_by_api(*by) && is_channel(spec, pull)) {
                refuse("it is pulled");
            }
        }
        let sources = &resolved.sources;
        let rules_max = resolved.push_limits.rules_max;
        let mut check = |key: &str, most: usize, count: usize| {
            if count > most {
                let message = format!("`{key}` is {most}, and there are {count} with those of the API");
                errors.push(ConfigError::new(&config.origin(key), message).to_string());
            }
        };
        check("sources.pulls_max", sources.pulls_max, count(&pulls, &resolved.pulls));
        check("sources.channels_max", sources.channels_max, count(&channels, &resolved.channels));
        check("pushes.rules_max", rules_max, count(&pushes, &resolved.pushes));
        if !errors.is_empty() {
            return Err(errors);
        }
        let pushes = Changes::new(&pushes, &resolved.pushes);
        let is_over = |spec: &PushSpec| pushes.end.contains(spec);
        let push_ids = rules.iter().filter(|rule| is_over(&rule.spec)).map(|rule| rule.id).collect();
        Ok(Self {
            pulls: Changes::new(&pulls, &resolved.pulls),
            channels: Changes::new(&channels, &resolved.channels),
            pushes,
            push_ids,
            order: resolved.pulls.clone(),
        })
    }

    /// Ends and begins.
    pub(super) fn apply(self, context: &Context) -> Report {
        let Self { pulls, channels, pushes, push_ids, order } = self;
        let mut report = Report::default();
        pulls.report("pull", |spec| format!("{}/{}", spec.app, spec.name), &mut report);
        channels.report("channel", |spec| format!("{}/{}", spec.app, spec.name), &mut report);
        // Targets may hold keys: they are shown without.
        pushes.report("push", |spec| format!("{} to {spec}", spec.stream.as_str()), &mut report);
        // First all ends: a stream may have had a pull and have a channel now.
        for spec in &pulls.end {
            context.pulls.remove(&spec.app, &spec.name);
        }
        for spec in &channels.end {
            context.channels.remove(&spec.app, &spec.name);
        }
        for id in push_ids {
            context.pushes.remove(id);
        }
        for spec in pulls.begin {
            let name = format!("pull {}/{}", spec.app, spec.name);
            if let Err(error) = context.pulls.add(spec, AddedBy::Configuration) {
                report.not_begun(&name, &format!("{error:?}"));
            }
        }
        for spec in channels.begin {
            let (app, name) = (spec.app.clone(), spec.name.clone());
            match context.channels.add(spec, AddedBy::Configuration) {
                Ok(_) => context.pulls.end_begun_by_pattern(&app, &name),
                Err(error) => report.not_begun(&format!("channel {app}/{name}"), &format!("{error:?}")),
            }
        }
        for spec in pushes.begin {
            let name = format!("push {} to {spec}", spec.stream.as_str());
            if let Err(error) = context.pushes.add(spec, AddedBy::Configuration) {
                report.not_begun(&name, &format!("{error:?}"));
            }
        }
        context.pulls.set_order(&order);
        report
    }
}

impl<S: PartialEq + Clone> Changes<S> {
    fn new(running: &[(S, AddedBy)], wanted: &[S]) -> Self {
        let of_configuration = running.iter().filter(|(_, by)| *by == AddedBy::Configuration);
        let end = of_configuration.map(|(spec, _)| spec).filter(|spec| !wanted.contains(spec));
        let begin = wanted.iter().filter(|spec| !running.iter().any(|(running, _)| running == *spec));
        Self { end: end.cloned().collect(), begin: begin.cloned().collect() }
    }

    /// What ends and begins by the same name has begun again.
    fn report(&self, kind: &str, name: impl Fn(&S) -> String, report: &mut Report) {
        let named = |spec: &S| format!("{kind} {}", name(spec));
        let mut ended: Vec<_> = self.end.iter().map(named).collect();
        for begun in self.begin.iter().map(named) {
            match ended.iter().position(|ended| *ended == begun) {
                Some(at) => report.restarted.push(ended.remove(at)),
                None => report.started.push(begun),
            }
        }
        report.ended.append(&mut ended);
    }
}

fn is_by_api(added_by: AddedBy) -> bool {
    added_by == AddedBy::Api
}

fn is_channel(channel: &ChannelSpec, pull: &PullSpec) -> bool {
    (&channel.app, &channel.name) == (&pull.app, &pull.name)
}

fn is_stream(stream: &str, app: &str, name: &str) -> bool {
    stream.rsplit_once('/') == Some((app, name))
}

fn in_the_way(origin: Option<&Origin>, list: &str, app: &str, name: &str, reason: &str) -> String {
    let message = format!("{list} `{app}/{name}` cannot begin: {reason}");
    ConfigError::new(origin.unwrap_or(&Origin::Default), message).to_string()
}

/// How many there will be: those of the API count too.
fn count<S: PartialEq>(running: &[(S, AddedBy)], wanted: &[S]) -> usize {
    running.iter().filter(|(spec, by)| is_by_api(*by) && !wanted.contains(spec)).count() + wanted.len()
}

impl Report {
    /// Nothing was in the way; something has come in between all the same.
    fn not_begun(&mut self, name: &str, reason: &str) {
        tracing::error!(name, reason, "not begun after a reload");
        if let Some(at) = self.restarted.iter().position(|other| other == name) {
            self.ended.push(self.restarted.remove(at));
        }
        self.started.retain(|other| other != name);
        self.failed.push(format!("{name}: {reason}"));
    }
}
