//! Tables, in Markdown, aligned so that they read well in a terminal too.

/// Rows of cells under a head. The first column is text, the others are numbers.
#[derive(Clone, Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new<S: Into<String>>(head: impl IntoIterator<Item = S>) -> Self {
        Self { rows: vec![head.into_iter().map(Into::into).collect()] }
    }

    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Takes a column out if it has no entry in any row.
    pub fn drop_empty_columns(&mut self) {
        let empty = |rows: &[Vec<String>], i: usize| rows.iter().skip(1).all(|r| r[i].is_empty());
        for i in (0..self.rows[0].len()).rev().filter(|i| *i > 0) {
            if empty(&self.rows, i) {
                for row in &mut self.rows {
                    row.remove(i);
                }
            }
        }
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let columns = self.rows[0].len();
        let width = |i: usize| self.rows.iter().map(|r| r[i].chars().count()).max().unwrap_or(0);
        let widths: Vec<_> = (0..columns).map(width).collect();
        for (n, row) in self.rows.iter().enumerate() {
            for (i, (cell, width)) in row.iter().zip(&widths).enumerate() {
                if i == 0 {
                    write!(f, "| {cell:<width$} ")?;
                } else {
                    write!(f, "| {cell:>width$} ")?;
                }
            }
            writeln!(f, "|")?;
            if n == 0 {
                for (i, width) in widths.iter().enumerate() {
                    let colon = if i == 0 { "-" } else { ":" };
                    write!(f, "| {}{colon} ", "-".repeat(width.saturating_sub(1).max(2)))?;
                }
                writeln!(f, "|")?;
            }
        }
        Ok(())
    }
}

/// A number with a comma between thousands.
pub fn thousands(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The middle of some numbers.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}
