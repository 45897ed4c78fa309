//! Line charts over time as inline SVG, without scripts or anything fetched.

use std::fmt::Write;

/// One chart.
#[derive(Debug)]
pub(super) struct Chart<'a> {
    /// Heading.
    pub title: &'a str,
    /// Unit of the vertical axis.
    pub unit: &'a str,
    /// Lines, drawn in order.
    pub lines: Vec<Line<'a>>,
    /// Measured windows to shade: begin, end and what to write there.
    pub windows: &'a [(f64, f64, String)],
    /// End of the time axis, seconds.
    pub seconds: f64,
}

/// One line of a chart.
#[derive(Debug)]
pub(super) struct Line<'a> {
    /// Name in the legend.
    pub name: &'a str,
    /// Number of the colour class, from 1.
    pub colour: u8,
    /// Time in seconds and value; gaps are `None`.
    pub values: Vec<(f64, Option<f64>)>,
}

impl Chart<'_> {
    /// The `<figure>` with its SVG.
    pub(super) fn render(&self) -> String {
        let top = self.lines.iter().flat_map(|line| line.values.iter().filter_map(|value| value.1));
        let step = tick_step(top.fold(0.0, f64::max));
        let values = self.lines.iter().flat_map(|line| line.values.iter().filter_map(|value| value.1));
        let ticks = (values.fold(0.0, f64::max) / step).ceil().max(1.0);
        let scale = Scale { top: ticks * step, seconds: self.seconds.max(1.0) };
        let mut svg = format!(
            "<figure><figcaption>{} <span>{}</span>{}</figcaption>\
             <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
            self.title,
            self.unit,
            legend(&self.lines),
            self.title
        );
        for (from, to, label) in self.windows {
            let (x, width) = (scale.x(*from), scale.x(*to) - scale.x(*from));
            let _ = write!(
                svg,
                "<rect class=\"window\" x=\"{x:.1}\" y=\"{MARGIN_TOP}\" width=\"{width:.1}\" height=\"{PLOT_HEIGHT}\"/>\
                 <text class=\"label\" x=\"{:.1}\" y=\"{}\">{label}</text>",
                x + width / 2.0,
                MARGIN_TOP - 6.0
            );
        }
        for tick in 0..=ticks as u32 {
            let value = f64::from(tick) * step;
            let y = scale.y(value);
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{MARGIN_LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"tick y\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                WIDTH - MARGIN_RIGHT,
                MARGIN_LEFT - 8.0,
                y + 4.0,
                number(value)
            );
        }
        let time_step = tick_step(scale.seconds * 0.6);
        let mut time = 0.0;
        while time <= scale.seconds {
            let _ = write!(
                svg,
                "<text class=\"tick x\" x=\"{:.1}\" y=\"{:.1}\">{} s</text>",
                scale.x(time),
                HEIGHT - 6.0,
                number(time)
            );
            time += time_step;
        }
        for line in &self.lines {
            let _ =
                write!(svg, "<path class=\"line c{}\" d=\"{}\"/>", line.colour, path(&line.values, &scale));
        }
        svg + "</svg></figure>\n"
    }
}

struct Scale {
    top: f64,
    seconds: f64,
}

impl Scale {
    fn x(&self, seconds: f64) -> f64 {
        MARGIN_LEFT + (seconds / self.seconds).clamp(0.0, 1.0) * (WIDTH - MARGIN_LEFT - MARGIN_RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        MARGIN_TOP + PLOT_HEIGHT * (1.0 - value / self.top)
    }
}

/// A new sub-path after each gap.
fn path(values: &[(f64, Option<f64>)], scale: &Scale) -> String {
    let mut data = String::new();
    let mut pen = 'M';
    for &(time, value) in values {
        let Some(value) = value else {
            pen = 'M';
            continue;
        };
        let _ = write!(data, "{pen}{:.1} {:.1}", scale.x(time), scale.y(value));
        pen = 'L';
    }
    data
}

fn legend(lines: &[Line<'_>]) -> String {
    if lines.len() < 2 {
        return String::new();
    }
    lines.iter().map(|line| format!("<b class=\"c{}\">{}</b>", line.colour, line.name)).collect()
}

/// The smallest of 1, 2, 5 times a power of ten that needs at most five steps up to `top`.
fn tick_step(top: f64) -> f64 {
    if top <= 0.0 {
        return 1.0;
    }
    let rough = top / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let factor =
        [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= rough * 0.999_999).unwrap_or(10.0);
    factor * power
}

/// Up to three decimals, without trailing zeros.
fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 220.0;
const MARGIN_LEFT: f64 = 52.0;
const MARGIN_RIGHT: f64 = 12.0;
const MARGIN_TOP: f64 = 22.0;
const PLOT_HEIGHT: f64 = HEIGHT - MARGIN_TOP - 26.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers() {
        let cases =
            [(0.0, 1.0), (1.0, 0.2), (5.0, 1.0), (5.1, 2.0), (26.0, 10.0), (100.0, 20.0), (8000.0, 2000.0)];
        for (top, step) in cases {
            assert!((tick_step(top) - step).abs() < step * 1e-6, "{top}: {}", tick_step(top));
        }
        for (value, text) in [(0.0, "0"), (0.25, "0.25"), (2000.0, "2000"), (0.0006, "0.001")] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn a_gap_breaks_the_line() {
        let scale = Scale { top: 10.0, seconds: 10.0 };
        let data = path(&[(0.0, Some(0.0)), (1.0, Some(10.0)), (2.0, None), (3.0, Some(5.0))], &scale);
        assert_eq!(data.matches('M').count(), 2, "{data}");
        assert_eq!(data.matches('L').count(), 1, "{data}");
        assert!(data.contains(&format!("L{:.1} {MARGIN_TOP:.1}", scale.x(1.0))), "{data}");
    }

    #[test]
    fn a_chart_without_values_is_still_a_chart() {
        let chart = Chart { title: "t", unit: "u", lines: Vec::new(), windows: &[], seconds: 0.0 };
        let svg = chart.render();
        assert!(svg.contains("<svg") && svg.ends_with("</svg></figure>\n") && !svg.contains("NaN"), "{svg}");
    }
}
