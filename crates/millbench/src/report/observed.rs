//! What a run saw besides its sessions: cores, an interface, the server's functions, a browser.

use serde::{Deserialize, Serialize};

use super::thousands;

/// What a core spent its time on, percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CoreShares {
    /// In processes.
    pub user: f64,
    /// In the kernel, on behalf of processes and of devices.
    pub system: f64,
    /// In soft interrupts: where received packets are handled.
    pub soft: f64,
}

/// What an interface carried, per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct InterfaceRates {
    /// Packets received; several in one where the device or the kernel joins them.
    pub packets_in: f64,
    /// Bits received.
    pub bits_in: f64,
    /// Packets sent; several in one where the device or the kernel splits them.
    pub packets_out: f64,
    /// Bits sent.
    pub bits_out: f64,
}

/// What was looked at besides the sessions.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Observed {
    /// Where the server spent its time when it was last sampled, with `--perf`.
    pub hot_functions: Option<Vec<HotFunction>>,
    /// Why it could not be sampled.
    pub perf_trouble: Option<String>,
    /// What the browser saw at the end, with `--watch`.
    pub browser: Option<BrowserView>,
}

impl Observed {
    /// The human form; empty if nothing was looked at.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if let Some(hot) = &self.hot_functions {
            text += "\nthe server's time by function:\n";
            for HotFunction { percent, function, of } in hot {
                text += &format!("  {percent:5.1} %  {function}  ({of})\n");
            }
        }
        if let Some(trouble) = &self.perf_trouble {
            text += &format!("\n{trouble}\n");
        }
        if let Some(browser) = &self.browser {
            text += &format!("\nbrowser: {}\n", browser.line());
        }
        text
    }

    /// Why the run is no success, if a browser should have seen something.
    pub fn failure(&self) -> Option<String> {
        let browser = self.browser.as_ref()?;
        match &browser.trouble {
            Some(trouble) => Some(format!("browser: {trouble}")),
            None => (browser.seen.decoded == 0).then(|| "browser: no picture was decoded".to_owned()),
        }
    }
}

/// A function and its share of the server's time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HotFunction {
    /// Percent of the samples.
    pub percent: f64,
    /// Name; an address where there are no symbols.
    pub function: String,
    /// Program, library or `kernel`.
    pub of: String,
}

/// What the browser sees.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BrowserView {
    /// URL of the stream that it plays.
    pub url: String,
    /// What its page says.
    #[serde(flatten)]
    pub seen: Seen,
    /// Pictures decoded in the last second.
    pub frames_per_second: f64,
    /// Why it does not play.
    pub trouble: Option<String>,
}

/// What a page says about its video.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Seen {
    /// `playing`, or what it waits for.
    pub state: String,
    /// Picture width, pixels.
    pub width: u32,
    /// Picture height, pixels.
    pub height: u32,
    /// Pictures decoded since the beginning.
    pub decoded: u64,
    /// Pictures decoded and not shown.
    pub dropped: u64,
    /// Packets missing, of WebRTC.
    pub lost: Option<i64>,
    /// Times the video stood still, of WebRTC.
    pub freezes: Option<u64>,
}

impl BrowserView {
    /// As text: in the live view and in the report. Of the URL, what is behind the host.
    pub(crate) fn line(&self) -> String {
        let BrowserView { url, seen, frames_per_second, trouble } = self;
        let path = url.split_once("://").and_then(|(_, rest)| rest.find('/').map(|at| &rest[at..]));
        let path = path.unwrap_or(url);
        if let Some(trouble) = trouble {
            return format!("{trouble} ({path})");
        }
        let Seen { state, width, height, decoded, dropped, lost, freezes } = seen;
        let size = if *width == 0 { String::new() } else { format!("{width}x{height}  ") };
        let decoded = thousands(*decoded as f64);
        let mut text =
            format!("{state}  {size}{frames_per_second:.0} fps  {decoded} decoded, {dropped} dropped");
        if let (Some(lost), Some(freezes)) = (lost, freezes) {
            text += &format!(", {lost} packets missing, {freezes} freezes");
        }
        format!("{text}  {path}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_is_one_line() {
        let seen =
            Seen { width: 640, height: 360, decoded: 1214, state: "playing".to_owned(), ..Seen::default() };
        let url = "http://h/whep/live/a7".to_owned();
        let view = BrowserView { url, seen, frames_per_second: 30.0, trouble: None };
        assert_eq!(view.line(), "playing  640x360  30 fps  1 214 decoded, 0 dropped  /whep/live/a7");
        let trouble = Some("the server answered 409 to the browser".to_owned());
        let line = BrowserView { trouble, ..view }.line();
        assert_eq!(line, "the server answered 409 to the browser (/whep/live/a7)");
    }
}
