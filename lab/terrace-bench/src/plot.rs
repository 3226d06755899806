//! Plots as SVG: the course of a run, and page reads against the optimum.

use plotters::coord::Shift;
use plotters::prelude::*;
use std::path::Path;

use crate::Error;
use crate::report::Report;
use crate::timeline::Part;

const SIZE: (u32, u32) = (960, 480);
const FONT: &str = "sans-serif";

/// Colours that are told apart by people who see colours differently, too (Okabe and Ito).
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];

/// What is shown of each window of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curve {
    /// Thousand operations per second.
    Throughput,
    /// Page reads per operation, with the static optimum as a line.
    Reads,
}

/// The course of one or more runs over time, loading left out, each from its first operation. A
/// grey line marks where a hot set moved.
pub fn course(
    path: &Path,
    title: &str,
    curve: Curve,
    runs: &[(&str, &Report)],
) -> Result<(), Error> {
    let mut lines = Vec::new();
    let mut moved = None;
    let mut optimum = None;
    for (label, report) in runs {
        let mut began = None;
        let mut points = Vec::new();
        for window in report
            .windows
            .iter()
            .filter(|w| w.part != Part::Load && w.ops > 0)
        {
            let start = window.at - window.seconds;
            let began = *began.get_or_insert(start);
            if window.part == Part::Moved {
                moved.get_or_insert(start - began);
            }
            let y = match curve {
                Curve::Throughput => window.ops_per_second() / 1e3,
                Curve::Reads => window.page_reads_per_op(),
            };
            points.push((window.at - window.seconds / 2.0 - began, y));
        }
        if curve == Curve::Reads {
            optimum = optimum.or(report.static_optimum_reads_per_op);
        }
        lines.push(Line {
            label: label.to_string(),
            points,
        });
    }
    let y_name = match curve {
        Curve::Throughput => "thousand operations per second",
        Curve::Reads => "page reads per operation",
    };
    let axes = Axes {
        title,
        x: "seconds",
        y: y_name,
    };
    draw(path, &axes, &lines, optimum.map(Horizontal::Level), moved)
}

/// One store at one size of memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The memory it was given.
    pub memory_bytes: u64,
    /// Page reads per operation, measured.
    pub reads_per_op: f64,
    /// Page reads per operation, at best.
    pub optimum: f64,
}

/// Page reads per operation of one or more stores over the memory they had, and the optimum.
pub fn against_optimum(path: &Path, title: &str, stores: &[(&str, &[Point])]) -> Result<(), Error> {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let mut best: Vec<(f64, f64)> = Vec::new();
    let mut lines = Vec::new();
    for (label, points) in stores {
        let mut line: Vec<_> = points
            .iter()
            .map(|p| (mib(p.memory_bytes), p.reads_per_op))
            .collect();
        line.sort_by(|a, b| a.0.total_cmp(&b.0));
        best.extend(points.iter().map(|p| (mib(p.memory_bytes), p.optimum)));
        lines.push(Line {
            label: label.to_string(),
            points: line,
        });
    }
    best.sort_by(|a, b| a.0.total_cmp(&b.0));
    best.dedup_by(|a, b| a.0 == b.0);
    let axes = Axes {
        title,
        x: "memory (MiB)",
        y: "page reads per operation",
    };
    draw(path, &axes, &lines, Some(Horizontal::Curve(best)), None)
}

struct Axes<'a> {
    title: &'a str,
    x: &'a str,
    y: &'a str,
}

struct Line {
    label: String,
    points: Vec<(f64, f64)>,
}

enum Horizontal {
    Level(f64),
    Curve(Vec<(f64, f64)>),
}

fn draw(
    path: &Path,
    axes: &Axes<'_>,
    lines: &[Line],
    optimum: Option<Horizontal>,
    mark: Option<f64>,
) -> Result<(), Error> {
    let failed = |reason: String| Error::Plot {
        path: path.display().to_string(),
        reason,
    };
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        draw_on(&area, axes, lines, optimum, mark).map_err(|error| failed(error.to_string()))?;
    }
    std::fs::write(path, svg).map_err(|error| failed(error.to_string()))
}

fn draw_on<'a>(
    area: &DrawingArea<SVGBackend<'a>, Shift>,
    axes: &Axes<'_>,
    lines: &[Line],
    optimum: Option<Horizontal>,
    mark: Option<f64>,
) -> Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>> {
    let points = || lines.iter().flat_map(|line| &line.points);
    let reach = |x: f64| if x.is_finite() && x > 0.0 { x } else { 1.0 };
    let right = reach(points().map(|p| p.0).fold(0.0, f64::max)) * 1.02;
    let top = reach(points().map(|p| p.1).fold(0.0, f64::max)) * 1.08;
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(area)
        .caption(axes.title, (FONT, 20))
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..right, 0.0..top)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc(axes.x)
        .y_desc(axes.y)
        .label_style((FONT, 13))
        .axis_desc_style((FONT, 14))
        .draw()?;
    if let Some(x) = mark {
        let grey = RGBColor(140, 140, 140);
        chart.draw_series(LineSeries::new([(x, 0.0), (x, top)], grey.stroke_width(1)))?;
    }
    for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        let style = colour.stroke_width(2);
        chart
            .draw_series(LineSeries::new(line.points.iter().copied(), style))?
            .label(line.label.as_str())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        if line.points.len() <= 12 {
            let dots = line
                .points
                .iter()
                .map(|&p| Circle::new(p, 4, colour.filled()));
            chart.draw_series(dots)?;
        }
    }
    if let Some(optimum) = optimum {
        let points = match optimum {
            Horizontal::Level(y) => vec![(0.0, y), (right, y)],
            Horizontal::Curve(points) => points,
        };
        let style = BLACK.stroke_width(1);
        chart
            .draw_series(LineSeries::new(points, style))?
            .label("static optimum")
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.85))
        .border_style(RGBColor(200, 200, 200))
        .label_font((FONT, 13))
        .draw()?;
    area.present()
}
