//! The matrices of Winograd (Toom-Cook) convolution.
//!
//! `n` outputs of a convolution with `r` taps are `Aᵀ((G g) · (Bᵀ d))` for taps `g` and `n + r - 1`
//! inputs `d`. The interpolation points are those of B. Barabasz et al., Error analysis and
//! improving the accuracy of Winograd convolution for deep neural networks, arXiv:1803.10986, which
//! TVM uses.

/// The three matrices, row by row: `a` and `g` have `n + r - 1` rows, of `n` and `r` numbers.
pub(super) struct Matrices {
    pub a: Vec<Vec<f64>>,
    pub b: Vec<Vec<f64>>,
    pub g: Vec<Vec<f64>>,
}

/// Returns that many interpolation points, 3 to 13.
fn points(count: usize) -> Vec<f64> {
    let few: &[f64] = match count {
        4 => &[0.0, -1.0, 1.0, 0.5],
        5 => &[0.0, -1.0, 1.0, 0.5, -2.0],
        6 => &[0.0, -1.0, 1.0, 0.5, -2.0, -0.5],
        10 => &[
            0.0,
            -1.0,
            1.0,
            0.5,
            -0.5,
            2.0,
            -2.0,
            -0.25,
            0.75,
            -4.0 / 3.0,
        ],
        11 | 12 => &[
            0.0,
            -1.0,
            1.0,
            0.5,
            -0.5,
            2.0,
            -2.0,
            -0.25,
            4.0,
            0.75,
            -4.0 / 3.0,
            0.25,
        ],
        _ => &[
            0.0,
            -1.0,
            1.0,
            0.5,
            -0.5,
            2.0,
            -2.0,
            -0.25,
            4.0,
            0.25,
            -0.75,
            4.0 / 3.0,
            -4.0,
        ],
    };
    few.iter().copied().take(count).collect()
}

/// Returns the matrices for `n` outputs and `r` taps; `None` outside TVM's range, 2 to 8 and 3 to
/// 7.
pub(super) fn matrices(n: i64, r: i64) -> Option<Matrices> {
    if !(2..=8).contains(&n) || !(3..=7).contains(&r) {
        return None;
    }
    let (n, r) = (n as usize, r as usize);
    let size = n + r - 1;
    let p = points(size - 1);
    // Powers of the points; the last row is the point at infinity.
    let powers = |width: usize| -> Vec<Vec<f64>> {
        let mut rows: Vec<Vec<f64>> = (p.iter())
            .map(|&x| (0..width).map(|j| x.powi(j as i32)).collect())
            .collect();
        rows.push((0..width).map(|j| f64::from(j + 1 == width)).collect());
        rows
    };
    let others = |i: usize| {
        p.iter()
            .enumerate()
            .filter(move |(k, _)| *k != i)
            .map(|(_, &x)| x)
    };
    let weights: Vec<f64> = (0..p.len())
        .map(|i| others(i).map(|x| p[i] - x).product())
        .collect();
    let mut scale = weights.clone();
    if scale[0] < 0.0 {
        scale[0] = -scale[0];
    }
    scale.push(1.0);
    let mut g = powers(r);
    for (row, s) in g.iter_mut().zip(&scale) {
        row.iter_mut().for_each(|v| *v /= s);
    }
    // Lagrange polynomials: the coefficients of the product of (x - other points).
    let lagrange: Vec<Vec<f64>> = (0..p.len())
        .map(|i| {
            let mut c = vec![1.0];
            for x in others(i) {
                let mut next = vec![0.0; c.len() + 1];
                for (k, v) in c.iter().enumerate() {
                    next[k + 1] += v;
                    next[k] -= v * x;
                }
                c = next;
            }
            c.into_iter().map(|v| v / weights[i]).collect()
        })
        .collect();
    let mut b: Vec<Vec<f64>> = (0..p.len())
        .map(|k| {
            let mut row: Vec<f64> = lagrange.iter().map(|l| l[k]).collect();
            let top = lagrange
                .iter()
                .zip(&p)
                .map(|(l, x)| -l[k] * x.powi(size as i32 - 1));
            row.push(top.sum());
            row
        })
        .collect();
    b.push((0..size).map(|j| f64::from(j + 1 == size)).collect());
    for row in &mut b {
        row.iter_mut().zip(&scale).for_each(|(v, s)| *v *= s);
    }
    Some(Matrices { a: powers(n), b, g })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn convolves() {
        for (n, r) in [(2, 3), (4, 3), (6, 3), (2, 5), (8, 7), (4, 4)] {
            let m = matrices(n, r).expect("in range");
            let (n, r) = (n as usize, r as usize);
            let size = n + r - 1;
            let d: Vec<f64> = (0..size).map(|i| (i * 7 % 5) as f64 - 1.5).collect();
            let g: Vec<f64> = (0..r).map(|i| (i * 3 % 4) as f64 + 0.25).collect();
            let u: Vec<f64> =
                m.g.iter()
                    .map(|row| row.iter().zip(&g).map(|(a, b)| a * b).sum())
                    .collect();
            let v: Vec<f64> = (0..size)
                .map(|k| (0..size).map(|i| d[i] * m.b[i][k]).sum())
                .collect();
            for y in 0..n {
                let got: f64 = (0..size).map(|k| m.a[k][y] * u[k] * v[k]).sum();
                let want: f64 = (0..r).map(|t| d[y + t] * g[t]).sum();
                assert!((got - want).abs() < 1e-6, "F({n}, {r}): {got} for {want}");
            }
        }
        assert!(matrices(9, 3).is_none() && matrices(2, 2).is_none());
    }
}
