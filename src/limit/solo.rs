//! One rule on a key that holds one rule or none: by far the most calls.
//!
//! It does what `layers` does for a list of one, by the same functions of `algorithm`, without
//! ever making a list. Whatever is not that simple (several rules, policies, another algorithm) is
//! left to `layers`, which also knows the errors.

use super::algorithm::{Base, Charge, Next, Taken};
use super::bytes::Bytes;
use super::change::{encode_head, LogPart, Totals};
use super::codec::{self, Slot, State};
use super::limiter::Limiter;
use super::log::{self, Log};
use super::slide::Edit;
use super::time::{Micros, Millis};
use super::{Ask, Row, Rule, Wait};

/// A call decided, not yet written.
#[derive(Clone, Debug)]
pub struct Solo {
    /// What the reply shows.
    pub row: Row,
    /// What is stored; `None` if nothing changes.
    pub write: Option<SoloWrite>,
}

/// A write prepared.
#[derive(Clone, Debug)]
pub struct SoloWrite {
    rule: Rule,
    next: Next,
    /// A log carries on.
    logged: bool,
    /// Settings that differ from the kept ones are stored.
    pub changed: bool,
    /// A stepped clock was repaired.
    pub repaired: bool,
    /// Something was charged.
    pub charged: bool,
    /// Milliseconds until the rule is as good as new after the write.
    pub reset_ms: u64,
}

/// Decides one rule on what the key holds; `None` if that is not this simple.
#[inline]
pub fn decide(
    limiter: Option<&Limiter>,
    ask: &Ask,
    force: bool,
    max_log: u64,
    now: Micros,
) -> Option<Solo> {
    let rule = ask.rule;
    let (mut base, mut repaired, mut changed) = (Base::Fresh, false, false);
    let (mut kept, mut log) = (None, &log::EMPTY);
    if let Some(limiter) = limiter {
        let slot = codec::unpack_one(limiter.packed())?;
        log = slot.state.log(limiter.logs());
        let (settled, stepped) = slot.rule.settle(&slot.state, log, now)?;
        if settled.is_fresh() {
            // As good as missing, whatever it was.
            log = &log::EMPTY;
        } else if slot.rule.algorithm() == rule.algorithm() {
            changed = slot.rule != rule;
            repaired = stepped;
            base = if changed { settled.carry(&slot.rule, &rule, log, now) } else { settled };
            kept = Some(slot);
        } else {
            return None;
        }
    }
    let wait = if force { Wait::Now } else { rule.wait(&base, log, ask.cost, now) };
    let cost = if wait == Wait::Now { ask.cost } else { 0 };
    let charged = cost > 0;
    let row =
        rule.row(&base, log, (wait, ask.shadow), Taken { cost, delayed: charged && !force }, now);
    let write = (charged || changed || repaired).then(|| {
        let kept_rule = kept.as_ref().map(|slot| &slot.rule);
        let logged = matches!(kept, Some(Slot { state: State::Log(_), .. }));
        SoloWrite {
            rule,
            next: rule.next(kept_rule, &base, log, Charge { cost, max_log }, now),
            logged,
            changed,
            repaired,
            charged,
            reset_ms: row.reset_ms,
        }
    });
    Some(Solo { row, write })
}

impl SoloWrite {
    /// Milliseconds in which a full limiter is as good as new.
    #[must_use]
    pub fn full_reset_ms(&self) -> u64 {
        self.rule.full_reset_ms()
    }

    /// How far ahead of need the TTL may be set.
    #[must_use]
    pub fn slack_ms(&self) -> u64 {
        super::change::slack_ms(&self.rule)
    }

    /// Changes `limiter`, or makes one, and writes the change for replicas and AOF.
    #[inline]
    pub fn apply(
        &self,
        limiter: Option<&mut Limiter>,
        expire_at: Option<Millis>,
        out: &mut Bytes,
    ) -> Option<Limiter> {
        match &self.next {
            Next::Small(state) => {
                encode_head(expire_at, out);
                let start = out.as_slice().len();
                codec::pack_one(out, &Slot { rule: self.rule, state: *state });
                let packed = out.as_slice().get(start..).unwrap_or(&[]);
                match limiter {
                    Some(limiter) => {
                        limiter.put(packed, Vec::new());
                        None
                    }
                    None => Some(Limiter::new(packed, Vec::new())),
                }
            }
            Next::Log(edit) => self.apply_log(edit, limiter, expire_at, out),
        }
    }

    fn apply_log(
        &self,
        edit: &Edit,
        limiter: Option<&mut Limiter>,
        expire_at: Option<Millis>,
        out: &mut Bytes,
    ) -> Option<Limiter> {
        encode_head(expire_at, out);
        let start = out.as_slice().len();
        codec::pack_one(out, &Slot { rule: self.rule, state: State::Log(0) });
        let end = out.as_slice().len();
        if let Some(limiter) = limiter {
            if let Some(log) = limiter.log_mut(0).filter(|_| self.logged) {
                let before = Totals::of(log);
                edit.apply(log);
                LogPart::Edited(before, edit).encode(log, out);
                if self.changed {
                    limiter.set_packed(out.as_slice().get(start..end).unwrap_or(&[]));
                }
                return None;
            }
            *limiter = self.first_log(edit, start, out);
            return None;
        }
        Some(self.first_log(edit, start, out))
    }

    /// A limiter whose log begins with this charge.
    fn first_log(&self, edit: &Edit, start: usize, out: &mut Bytes) -> Limiter {
        let mut log = Log::new();
        edit.apply(&mut log);
        let packed = out.as_slice().get(start..).unwrap_or(&[]).to_vec();
        LogPart::Whole.encode(&log, out);
        Limiter::new(&packed, vec![log])
    }
}
