//! RL.INSPECT: what a key holds, for people.
//!
//! ```text
//!   RL.INSPECT key
//! ```

use super::error::Error;
use crate::limit::inspect::{inspect as views, Detail, View};
use crate::limit::Rule;
use crate::server::{Call, Opened};

pub(crate) fn inspect(call: &Call) {
    if let Err(error) = show(call) {
        error.answer(call);
    }
}

fn show(call: &Call) -> Result<(), Error> {
    let key = call.open_read(1);
    if key.opened() == Opened::Foreign {
        return Err(Error::WrongType);
    }
    let views = match key.value() {
        Some(limiter) => views(limiter, call.now()).map_err(|_| Error::Bug)?,
        None => None,
    };
    let Some(views) = views else {
        call.null_array();
        return Ok(());
    };
    call.map(1);
    call.bytes(b"rules");
    call.array(views.len());
    for view in &views {
        let fields = fields(view);
        call.map(fields.len().saturating_add(1));
        call.bytes(b"algorithm");
        call.bytes(view.rule.algorithm().name().as_bytes());
        for (name, value) in fields {
            call.bytes(name.as_bytes());
            call.int(value);
        }
    }
    Ok(())
}

/// Settings, then what all rules have, then the state; times in milliseconds.
fn fields(view: &View) -> Vec<(&'static str, i64)> {
    let mut out = Vec::new();
    let int = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    match view.rule {
        Rule::Token(b) | Rule::Leaky(b) => out.extend([
            ("capacity", int(b.capacity())),
            ("rate", int(b.rate())),
            ("period_ms", int(b.period_ms())),
        ]),
        Rule::Slide(s) => {
            out.extend([("limit", int(s.limit())), ("window_ms", int(s.window_ms()))]);
            out.extend(s.blocks().map(|n| ("blocks", i64::from(n))));
        }
        Rule::Fixed(f) => {
            out.extend([("limit", int(f.limit())), ("window_ms", int(f.window_ms()))]);
            out.extend(f.align_ms().map(|ms| ("offset_ms", ms)));
        }
    }
    out.extend([
        ("used", int(view.used)),
        ("remaining", int(view.remaining)),
        ("reset_after_ms", int(view.reset_ms)),
    ]);
    match view.detail {
        Detail::Bucket { cut_off: 0 } => {}
        Detail::Bucket { cut_off } => out.push(("cut_off", int(cut_off))),
        Detail::Window { span } => {
            if let Some((opened, closes)) = span {
                out.extend([("opened_at_ms", opened), ("closes_at_ms", closes)]);
            }
        }
        Detail::Log { entries, span } => {
            out.push(("entries", i64::try_from(entries).unwrap_or(i64::MAX)));
            if let Some((oldest, newest)) = span {
                out.extend([("oldest_ms", oldest), ("newest_ms", newest)]);
            }
        }
    }
    out
}
