//! A limiter in plain units, for people.

use super::few::Few;
use super::layers::{self, Refusal};
use super::limiter::Limiter;
use super::time::{ceil_ms, Micros, Millis};
use super::Rule;

/// One rule of a limiter as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// The kept settings.
    pub rule: Rule,
    /// Units used, rounded up.
    pub used: u64,
    /// Calls of cost 1 that would pass.
    pub remaining: u64,
    /// Milliseconds until as good as new.
    pub reset_ms: u64,
    /// More about the state.
    pub detail: Detail,
}

/// What only one kind of algorithm has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// A bucket: units that a lowered capacity cut off, rounded up.
    Bucket {
        /// Those units.
        cut_off: u64,
    },
    /// A fixed window, in ms since the epoch; `None` while none is open.
    Window {
        /// When it opened and when it closes.
        span: Option<(Millis, Millis)>,
    },
    /// A sliding log: how many entries count, and the stamps of the oldest and newest of them.
    Log {
        /// Entries, or blocks.
        entries: usize,
        /// Stamps in ms since the epoch.
        span: Option<(Millis, Millis)>,
    },
}

/// The rules that a key holds, in order; `None` if nothing counts.
///
/// # Errors
/// The stored bytes are damaged.
pub fn inspect(limiter: &Limiter, now: Micros) -> Result<Option<Vec<View>>, Refusal> {
    let mut kept = Few::none();
    if layers::read(Some(limiter), now, &mut kept)?.is_none() {
        return Ok(None);
    }
    let logs = limiter.logs();
    Ok(Some(
        kept.all()
            .iter()
            .map(|position| {
                let (remaining, reset_ms) = position.standing(logs, now);
                let (used, detail) = match &position.rule {
                    Rule::Token(b) | Rule::Leaky(b) => {
                        let level = position.base.level();
                        (b.used_units(level), Detail::Bucket { cut_off: b.cut_units(level) })
                    }
                    Rule::Fixed(f) => {
                        let count = position.base.count();
                        let span =
                            count.map(|c| (ceil_ms(f.start(c.begin)), ceil_ms(f.end(c.begin))));
                        (count.map_or(0, |c| c.count), Detail::Window { span })
                    }
                    Rule::Slide(_) => {
                        let log = position.log(logs);
                        let seen = position.base.seen();
                        let extent = seen.map(|s| s.extent(log));
                        let detail = Detail::Log {
                            entries: extent.map_or(0, |e| e.0),
                            span: extent.map(|e| (e.1, e.2)),
                        };
                        (seen.map_or(0, |s| s.used(log)), detail)
                    }
                };
                View { rule: position.rule, used, remaining, reset_ms, detail }
            })
            .collect(),
    ))
}

/// Whether a key holds just this rule at this position. Fresh rules beyond those that the last charge
/// asked for are gone, even where a live one stands after them.
///
/// # Errors
/// The stored bytes are damaged.
pub fn keeps(
    limiter: &Limiter,
    position: usize,
    rule: &Rule,
    now: Micros,
) -> Result<bool, Refusal> {
    let mut kept = Few::none();
    let Some(stored) = layers::read(Some(limiter), now, &mut kept)? else { return Ok(false) };
    let there = kept.get(position).filter(|kept| layers::binds(kept, position, stored.asked));
    Ok(there.is_some_and(|kept| kept.rule == *rule))
}

/// The rules that a key holds, in order; none if nothing counts.
///
/// # Errors
/// The stored bytes are damaged.
pub fn kept_rules(limiter: &Limiter, now: Micros) -> Result<Vec<Rule>, Refusal> {
    let mut kept = Few::none();
    layers::read(Some(limiter), now, &mut kept)?;
    Ok(kept.all().iter().map(|position| position.rule).collect())
}
