//! Pictures: SVG by hand, on a white ground of their own.

use std::fmt::Write;

const TEXT: &str = "#4d555c";
const GRID: &str = "#80889055";
/// Lines that lie on each other are still told apart.
pub const DASHES: [&str; 4] = ["none", "7 4", "2 4", "10 3 2 3"];
/// Told apart by all common kinds of sight.
pub const COLOURS: [&str; 4] = ["#3987e5", "#d97706", "#199e70", "#a855c9"];

fn head(width: u32, height: u32, title: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"system-ui, sans-serif\" font-size=\"13\" fill=\"{TEXT}\" \
         role=\"img\">\n<title>{}</title>\n<rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"#fff\"/>\n",
        escape(title)
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, style: &str, content: &str) {
    let content = escape(content);
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\"{style}>{content}</text>"
    );
}

/// One bar: its label, its length, what stands at its end, and its colour.
pub struct Bar {
    pub label: String,
    pub value: f64,
    pub note: String,
    pub colour: &'static str,
    /// Where a mark stands for what was aimed at.
    pub target: Option<f64>,
}

/// Bars from the left, one below the other.
pub fn bars(title: &str, subtitle: &str, bars: &[Bar]) -> String {
    const LEFT: f64 = 230.0;
    const WIDTH: f64 = 400.0;
    const STEP: f64 = 22.0;
    const TOP: f64 = 64.0;
    let most = bars.iter().map(|b| b.value).fold(1.0, f64::max);
    let height = TOP + STEP * bars.len() as f64 + 14.0;
    let mut out = head(740, height as u32, title);
    text(&mut out, 16.0, 24.0, "start", " font-size=\"16\" font-weight=\"600\"", title);
    text(&mut out, 16.0, 44.0, "start", "", subtitle);
    let one = LEFT + WIDTH / most;
    let _ = writeln!(
        out,
        "<line x1=\"{one:.1}\" x2=\"{one:.1}\" y1=\"{TOP}\" y2=\"{:.1}\" stroke=\"{TEXT}\" stroke-dasharray=\"3 3\"/>",
        height - 14.0
    );
    for (i, bar) in bars.iter().enumerate() {
        let y = TOP + STEP * i as f64;
        let width = (bar.value / most * WIDTH).max(1.0);
        let _ = writeln!(
            out,
            "<rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"15\" rx=\"3\" fill=\"{}\"/>",
            bar.colour
        );
        if let Some(target) = bar.target {
            let _ = writeln!(
                out,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"3\" height=\"19\" fill=\"#111\"/>",
                LEFT + target / most * WIDTH - 1.5,
                y - 2.0
            );
        }
        text(&mut out, LEFT - 10.0, y + 12.0, "end", "", &bar.label);
        text(&mut out, LEFT + width + 8.0, y + 12.0, "start", "", &bar.note);
    }
    out + "</svg>\n"
}

/// A named line through values at evenly spaced places.
pub struct Line {
    pub name: String,
    pub values: Vec<f64>,
    pub colour: &'static str,
    pub dash: &'static str,
}

/// Lines over labelled places, in percent up to `most`, a multiple of 25.
pub fn lines(title: &str, subtitle: &str, places: &[String], most: u32, lines: &[Line]) -> String {
    const LEFT: f64 = 60.0;
    const WIDTH: f64 = 500.0;
    const TOP: f64 = 70.0;
    const HEIGHT: f64 = 240.0;
    let mut out = head(740, 370, title);
    let x = |i: usize| LEFT + WIDTH * i as f64 / (places.len().max(2) - 1) as f64;
    let y = |v: f64| TOP + HEIGHT * (1.0 - v / f64::from(most));
    text(&mut out, 16.0, 24.0, "start", " font-size=\"16\" font-weight=\"600\"", title);
    text(&mut out, 16.0, 44.0, "start", "", subtitle);
    for value in (0..=most).step_by(25) {
        let at = y(f64::from(value));
        let _ = writeln!(
            out,
            "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"{GRID}\"/>",
            LEFT + WIDTH
        );
        text(&mut out, LEFT - 8.0, at + 4.0, "end", "", &format!("{value} %"));
    }
    for (i, place) in places.iter().enumerate() {
        text(&mut out, x(i), TOP + HEIGHT + 20.0, "middle", "", place);
    }
    text(&mut out, LEFT + WIDTH / 2.0, TOP + HEIGHT + 42.0, "middle", "", "sub-keys");
    let mut labels: Vec<(f64, usize)> = Vec::new();
    for (n, line) in lines.iter().enumerate() {
        let points =
            line.values.iter().enumerate().map(|(i, v)| format!("{:.1},{:.1}", x(i), y(*v)));
        let (points, colour) = (points.collect::<Vec<_>>().join(" "), line.colour);
        let _ = writeln!(
            out,
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{}\"/>",
            line.dash
        );
        labels.push((y(line.values.last().copied().unwrap_or(0.0)), n));
    }
    // Labels at the lines' ends, pushed apart where the ends lie close.
    labels.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut free = 0.0;
    for (at, n) in labels {
        let at = at.max(free);
        free = at + 17.0;
        let style = format!(" style=\"fill:{}\"", lines[n].colour);
        text(&mut out, LEFT + WIDTH + 10.0, at + 4.0, "start", &style, &lines[n].name);
    }
    out + "</svg>\n"
}
