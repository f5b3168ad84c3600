//! Rooflines: the performance of kernels compared with the machine's peak compute and memory
//! bandwidth.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use relax_tensor::{Tensor, Value};

use crate::picture::escaped;
use crate::{CompileOptions, Cost, Error, Module, Program};

/// The peak performance of a machine.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Peaks {
    /// Peak arithmetic throughput, in GFLOP/s.
    pub gflops: f64,
    /// Peak memory bandwidth, in GB/s.
    pub gbytes: f64,
}

impl Peaks {
    /// Measures this machine's peaks with `threads` threads (0 for one per processor): a large
    /// matrix product, and a sum of arrays that exceed every cache. This takes about half a second.
    ///
    /// # Errors
    /// This many threads cannot be started.
    pub fn measured(threads: usize) -> Result<Peaks, Error> {
        const N: i64 = 512;
        const LONG: i64 = 1 << 23;
        let square = Value::Tensor(Tensor::zeros(relax_tensor::DType::F32, &[N, N]));
        let long = Value::Tensor(Tensor::zeros(relax_tensor::DType::F32, &[LONG]));
        let product = format!(
            "def @main(%x: Tensor[({N}, {N}), float32], %w: Tensor[({N}, {N}), float32]) {{ \
             nn.dense(%x, %w, units={N}) }}"
        );
        let sum = format!(
            "def @main(%x: Tensor[({LONG},), float32], %y: Tensor[({LONG},), float32]) {{ %x + %y }}"
        );
        let flops = 2.0 * (N * N * N) as f64;
        let bytes = 3.0 * 4.0 * LONG as f64;
        Ok(Peaks {
            gflops: flops / least(&product, threads, &[square.clone(), square])? / 1e9,
            gbytes: bytes / least(&sum, threads, &[long.clone(), long])? / 1e9,
        })
    }

    /// Returns the attainable GFLOP/s at an arithmetic intensity.
    fn roof(self, intensity: f64) -> f64 {
        self.gflops.min(self.gbytes * intensity)
    }
}

/// Returns the time of the fastest of several calls, in seconds.
fn least(text: &str, threads: usize, arguments: &[Value]) -> Result<f64, Error> {
    let options = CompileOptions {
        threads,
        ..CompileOptions::default()
    };
    let program: Program = Module::parse(text)?.compile(&options)?;
    let (mut least, begin) = (Duration::MAX, Instant::now());
    for round in 0..50 {
        let start = Instant::now();
        program.call(arguments)?;
        least = least.min(start.elapsed());
        if round > 3 && begin.elapsed() > Duration::from_millis(200) {
            break;
        }
    }
    Ok(least.as_secs_f64().max(1e-9))
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 440.0;
/// Left, top, right, bottom.
const MARGIN: [f64; 4] = [58.0, 34.0, 18.0, 46.0];
/// The number of kernels that are labelled.
const NAMED: usize = 10;
const LONGEST: usize = 40;

/// A kernel in the plot.
struct Point<'c> {
    intensity: f64,
    gflops: f64,
    share: f64,
    cost: &'c Cost,
}

/// Returns the range of decades that covers the values.
fn decades(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values
        .filter(|v| *v > 0.0 && v.is_finite())
        .fold((f64::INFINITY, 0f64), |(a, b), v| (a.min(v), b.max(v)));
    if low > high {
        return (0.0, 1.0);
    }
    let (low, high) = (low.log10().floor(), high.log10().ceil());
    (low, if high > low { high } else { low + 1.0 })
}

/// A logarithmic scale: its decades, and their range in the picture.
#[derive(Clone, Copy)]
struct Scale {
    decades: (f64, f64),
    ends: (f64, f64),
}

impl Scale {
    fn at(self, value: f64) -> f64 {
        let (low, high) = self.decades;
        let part = (value.max(1e-30).log10() - low) / (high - low);
        self.ends.0 + part.clamp(0.0, 1.0) * (self.ends.1 - self.ends.0)
    }

    fn ticks(self) -> impl Iterator<Item = f64> {
        (self.decades.0 as i32..=self.decades.1 as i32).map(|d| 10f64.powi(d))
    }
}

/// Plots the kernels of a profile: arithmetic intensity (operations per byte) on the x axis,
/// operations per second on the y axis, both logarithmic; areas are proportional to time. Kernels
/// without counted operations are left out.
///
/// ```
/// use relax::{Cost, roofline};
/// let cost = Cost { kernel: "dense".into(), calls: 1, nanos: 1000, least: 1000, flops: 16000, bytes: 4000 };
/// let peaks = roofline::Peaks { gflops: 50.0, gbytes: 10.0 };
/// assert!(roofline::svg(&[cost], peaks).starts_with("<svg"));
/// ```
#[must_use]
pub fn svg(costs: &[Cost], peaks: Peaks) -> String {
    let total = costs.iter().map(|c| c.nanos as f64).sum::<f64>().max(1.0);
    let points = costs.iter().filter(|c| c.flops > 0 && c.bytes > 0);
    let points: Vec<Point<'_>> = points
        .map(|c| Point {
            intensity: c.flops as f64 / c.bytes as f64,
            gflops: c.flops as f64 / (c.nanos as f64).max(1.0),
            share: c.nanos as f64 / total,
            cost: c,
        })
        .collect();
    let ridge = peaks.gflops / peaks.gbytes;
    let x = Scale {
        decades: decades(
            points
                .iter()
                .map(|p| p.intensity)
                .chain([ridge / 10.0, ridge * 10.0]),
        ),
        ends: (MARGIN[0], WIDTH - MARGIN[2]),
    };
    let y = Scale {
        decades: decades(points.iter().map(|p| p.gflops).chain([peaks.gflops])),
        ends: (HEIGHT - MARGIN[3], MARGIN[1]),
    };
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n<title>roofline</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    axes(&mut out, x, y);
    roof(&mut out, (x, y), peaks);
    kernels(&mut out, (x, y), &points);
    out + "</svg>\n"
}

fn axes(out: &mut String, x: Scale, y: Scale) {
    const GRID: &str = "stroke=\"#d8dee4\"";
    for v in x.ticks() {
        let at = x.at(v);
        let _ = writeln!(
            out,
            "<path d=\"M{at:.1},{:.1}V{:.1}\" {GRID}/><text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{v}</text>",
            y.ends.0,
            y.ends.1,
            y.ends.0 + 15.0,
        );
    }
    for v in y.ticks() {
        let at = y.at(v);
        let _ = writeln!(
            out,
            "<path d=\"M{:.1},{at:.1}H{:.1}\" {GRID}/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{v}</text>",
            x.ends.0,
            x.ends.1,
            x.ends.0 - 6.0,
            at + 4.0,
        );
    }
    let _ = writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">operations for each byte</text>\
         <text transform=\"translate(14,{:.1}) rotate(-90)\" text-anchor=\"middle\">GFLOP/s</text>",
        f64::midpoint(x.ends.0, x.ends.1),
        HEIGHT - 12.0,
        f64::midpoint(y.ends.0, y.ends.1),
    );
}

fn roof(out: &mut String, (x, y): (Scale, Scale), peaks: Peaks) {
    let ridge = peaks.gflops / peaks.gbytes;
    // The slope enters the plot from the left or from below.
    let least = 10f64
        .powf(x.decades.0)
        .max(10f64.powf(y.decades.0) / peaks.gbytes);
    let _ = writeln!(
        out,
        "<path d=\"M{:.1},{:.1}L{:.1},{:.1}H{:.1}\" fill=\"none\" stroke=\"#cf222e\" stroke-width=\"2\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#cf222e\">{:.1} GFLOP/s</text>\
         <text x=\"{:.1}\" y=\"{:.1}\" fill=\"#cf222e\">{:.1} GB/s</text>",
        x.at(least),
        y.at(peaks.roof(least)),
        x.at(ridge),
        y.at(peaks.gflops),
        x.ends.1,
        x.ends.1,
        y.at(peaks.gflops) - 6.0,
        peaks.gflops,
        x.at(least) + 8.0,
        y.at(peaks.roof(least)) - 8.0,
        peaks.gbytes,
    );
}

fn kernels(out: &mut String, (x, y): (Scale, Scale), points: &[Point<'_>]) {
    // Labels must not overlap: one that would is moved down.
    let mut taken: Vec<(f64, f64, f64)> = Vec::new();
    for (i, p) in points.iter().enumerate() {
        let (cx, cy, radius) = (
            x.at(p.intensity),
            y.at(p.gflops),
            3.0 + 17.0 * p.share.sqrt(),
        );
        let percent = 100.0 * p.share;
        let name = crate::picture::cut(&p.cost.kernel, LONGEST);
        let _ = writeln!(
            out,
            "<circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"{radius:.1}\" fill=\"#0969da\" fill-opacity=\"0.35\" \
             stroke=\"#0969da\"><title>{}: {:.2} GFLOP/s, {percent:.1} %</title></circle>",
            escaped(&p.cost.kernel),
            p.gflops,
        );
        if i >= NAMED {
            continue;
        }
        let width = name.chars().count() as f64 * 5.4 + 34.0;
        let right = cx + radius + 4.0 + width <= WIDTH;
        let left = if right {
            cx + radius + 4.0
        } else {
            (cx - radius - 4.0 - width).max(2.0)
        };
        let mut at = cy + 4.0;
        while taken
            .iter()
            .any(|t| (t.2 - at).abs() < 11.0 && left < t.1 && t.0 < left + width)
        {
            at += 11.0;
        }
        if at > y.ends.0 {
            continue;
        }
        taken.push((left, left + width, at));
        let _ = writeln!(
            out,
            "<text x=\"{left:.1}\" y=\"{at:.1}\" font-size=\"9\">{} ({percent:.0} %)</text>",
            escaped(&name),
        );
    }
}
