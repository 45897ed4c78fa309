//! What a reload does to pulls, pushes and channels.
//!
//! Those of the configuration that it has no more end, those that are otherwise begin again, new ones begin;
//! all others go on untouched. What the API has added stays, and if it is what the configuration wants, it is
//! left alone. Everything that could be in the way is looked for before anything changes: the control side
//! has one thread, so nobody adds anything in between.

use std::fmt::Display;

use config::resolve::Resolved;
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

/// Started, restarted and ended.
pub(super) type Report = (Vec<String>, Vec<String>, Vec<String>);

impl Plan {
    /// Compares what runs with what `resolved` wants. The error has all that is in the way.
    pub(super) fn new(context: &Context, resolved: &Resolved) -> Result<Self, Vec<String>> {
        let mut errors = Vec::new();
        let pulls: Vec<_> =
            context.pulls.added().iter().map(|pull| (pull.spec.clone(), pull.added_by)).collect();
        let channels: Vec<_> =
            context.channels.views().iter().map(|view| ((*view.spec).clone(), view.added_by)).collect();
        let rules = context.pushes.list();
        let pushes: Vec<_> = rules.iter().map(|rule| ((*rule.spec).clone(), rule.added_by)).collect();

        for spec in &resolved.pulls {
            let others = pulls.iter().filter(|(other, by)| *by == AddedBy::Api && other != spec);
            if others.into_iter().any(|(other, _)| (&other.app, &other.name) == (&spec.app, &spec.name)) {
                errors.push(in_the_way(
                    "[[pull]]",
                    &spec.app,
                    &spec.name,
                    "another pull was added by the API",
                ));
            }
            if channels.iter().any(|(channel, by)| is_by_api(*by) && is_channel(channel, spec)) {
                errors.push(in_the_way("[[pull]]", &spec.app, &spec.name, "a channel was added by the API"));
            }
            if context.pulls.is_begun_by_pattern(&spec.app, &spec.name) {
                errors.push(in_the_way(
                    "[[pull]]",
                    &spec.app,
                    &spec.name,
                    "it is pulled because of a pattern",
                ));
            }
        }
        for spec in &resolved.channels {
            let others = channels.iter().filter(|(other, by)| is_by_api(*by) && other != spec);
            if others.into_iter().any(|(other, _)| (&other.app, &other.name) == (&spec.app, &spec.name)) {
                let reason = "another channel was added by the API";
                errors.push(in_the_way("[[channel]]", &spec.app, &spec.name, reason));
            }
            if pulls.iter().any(|(pull, by)| is_by_api(*by) && is_channel(spec, pull))
                || context.pulls.is_begun_by_pattern(&spec.app, &spec.name)
            {
                errors.push(in_the_way("[[channel]]", &spec.app, &spec.name, "it is pulled"));
            }
        }
        let sources = &resolved.sources;
        check_room("sources.pulls_max", sources.pulls_max, &pulls, &resolved.pulls, &mut errors);
        check_room("sources.channels_max", sources.channels_max, &channels, &resolved.channels, &mut errors);
        check_room(
            "pushes.rules_max",
            resolved.push_limits.rules_max,
            &pushes,
            &resolved.pushes,
            &mut errors,
        );
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
            let stream = format!("{}/{}", spec.app, spec.name);
            let added = context.pulls.add(spec, AddedBy::Configuration);
            added.map_or_else(|error| not_added("pull", &stream, &format!("{error:?}")), |_| ());
        }
        for spec in channels.begin {
            let stream = format!("{}/{}", spec.app, spec.name);
            let added = context.channels.add(spec, AddedBy::Configuration);
            added.map_or_else(|error| not_added("channel", &stream, &format!("{error:?}")), |_| ());
        }
        for spec in pushes.begin {
            let streams = spec.stream.as_str().to_owned();
            let added = context.pushes.add(spec, AddedBy::Configuration);
            added.map_or_else(|error| not_added("push", &streams, &format!("{error:?}")), |_| ());
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
                Some(at) => report.1.push(ended.remove(at)),
                None => report.0.push(begun),
            }
        }
        report.2.append(&mut ended);
    }
}

fn is_by_api(added_by: AddedBy) -> bool {
    added_by == AddedBy::Api
}

fn is_channel(channel: &ChannelSpec, pull: &PullSpec) -> bool {
    (&channel.app, &channel.name) == (&pull.app, &pull.name)
}

fn in_the_way(list: &str, app: &str, name: &str, reason: &str) -> String {
    format!("{list} `{app}/{name}` cannot begin: {reason}")
}

/// Those of the API count too.
fn check_room<S: PartialEq>(
    key: &str,
    most: usize,
    running: &[(S, AddedBy)],
    wanted: &[S],
    errors: &mut Vec<String>,
) {
    let others = running.iter().filter(|(spec, by)| is_by_api(*by) && !wanted.contains(spec)).count();
    if others + wanted.len() > most {
        let text =
            format!("`{key}` is {most}, and there are {} with those of the API", others + wanted.len());
        errors.push(text);
    }
}

/// Nothing was in the way; something has come in between all the same.
fn not_added(kind: &str, name: &str, error: &dyn Display) {
    tracing::error!(kind, name, %error, "not begun after a reload");
}
