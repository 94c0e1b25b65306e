//! RL.TOP: the keys that were denied most.
//!
//! ```text
//!   RL.TOP [COUNT n] [RESET]
//! ```

use super::args::amount;
use super::error::{Argument, Error};
use crate::server::Call;
use crate::top as sketch;

/// Rows without COUNT.
const ROWS: u64 = 10;

pub(crate) fn top(call: &Call) {
    match words(call) {
        Ok((count, reset)) => {
            let rows = sketch::most_denied(usize::try_from(count).unwrap_or(usize::MAX));
            call.array(rows.len());
            for row in &rows {
                call.array(3);
                call.bytes(&row.key);
                call.int(i64::try_from(row.denied).unwrap_or(i64::MAX));
                call.int(i64::from(row.db));
            }
            if reset {
                sketch::reset();
            }
        }
        Err(error) => error.answer(call),
    }
}

fn words(call: &Call) -> Result<(u64, bool), Error> {
    let (mut count, mut reset) = (None, false);
    let mut at = 1;
    while at < call.argc() {
        let word = call.arg(at);
        at = at.saturating_add(1);
        if !reset && word.eq_ignore_ascii_case(b"RESET") {
            reset = true;
        } else if count.is_none() && word.eq_ignore_ascii_case(b"COUNT") && at < call.argc() {
            count = Some(at);
            at = at.saturating_add(1);
        } else {
            return Err(Error::Syntax);
        }
    }
    let count = match count {
        Some(at) => amount(call.arg(at)).ok_or(Error::of(Argument::Amount("count")))?,
        None => ROWS,
    };
    Ok((count, reset))
}
