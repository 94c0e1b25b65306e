//! The shape of replies of our own commands, where never becomes -1 (CL.THROTTLE has its own).

use crate::limit::few::Few;
use crate::limit::{Row, Wait};
use crate::server::Call;

/// Numbers of a reply lie far within 63 bits; what does not fit is shown as the largest.
fn int(call: &Call, value: u64) {
    call.int(i64::try_from(value).unwrap_or(i64::MAX));
}

fn wait(call: &Call, wait: Wait, jitter: u64) {
    match wait {
        Wait::Now => call.int(0),
        Wait::After(ms) => int(call, ms.saturating_add(jitter)),
        Wait::Never => call.int(-1),
    }
}

/// The six integers of one rule.
pub(crate) fn six(call: &Call, row: &Row, jitter: u64) {
    call.array(6);
    items(call, row, jitter);
}

fn items(call: &Call, row: &Row, jitter: u64) {
    call.int(i64::from(!row.denies()));
    int(call, row.remaining);
    wait(call, row.wait, jitter);
    int(call, row.reset_ms);
    int(call, row.limit);
    int(call, row.delay_ms);
}

/// The six integers of the whole call, and an array of six for each rule.
pub(crate) fn layers(call: &Call, rows: &[Row], jitter: u64) {
    call.array(7);
    items(call, &summary(rows), jitter);
    call.array(rows.len());
    for row in rows {
        six(call, row, 0);
    }
}

/// What the first six say of several rules: the binding rule's numbers, the longest wait, and the
/// longest delay if all pass. Shadow rules count only where there is no other.
pub(crate) fn summary(rows: &[Row]) -> Row {
    let live = rows.iter().any(|row| !row.shadow);
    let mut chosen: Option<Row> = None;
    let (mut longest, mut delay_ms) = (Wait::Now, 0);
    for row in rows.iter().filter(|row| !(live && row.shadow)) {
        if live {
            delay_ms = delay_ms.max(row.delay_ms);
            if row.wait.rank() > longest.rank() {
                longest = row.wait;
            }
        }
        if chosen.is_none_or(|best| binds_more(row, &best)) {
            chosen = Some(*row);
        }
    }
    let chosen = chosen.unwrap_or(Row {
        wait: Wait::Now,
        remaining: 0,
        reset_ms: 0,
        limit: 0,
        delay_ms: 0,
        shadow: false,
    });
    let delay_ms = if longest == Wait::Now { delay_ms } else { 0 };
    Row { wait: longest, delay_ms, ..chosen }
}

/// Least remaining, then the longest wait, then the longest reset; on a full tie the first stays.
fn binds_more(row: &Row, best: &Row) -> bool {
    let key = |r: &Row| (std::cmp::Reverse(r.remaining), r.wait.rank(), r.reset_ms);
    key(row) > key(best)
}

/// Rows collected for a reply.
pub(crate) fn collect(rows: impl Iterator<Item = Row>) -> Few<Row> {
    let mut all = Few::none();
    for row in rows {
        all.push(row);
    }
    all
}
