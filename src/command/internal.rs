//! RL.X and RL.P: what carries results to replicas, AOF and slot imports. Not for clients.
//!
//! ```text
//!   rl.x key change [key change ...]
//!   rl.p change
//! ```

use super::error::Error;
use crate::limit::change::{apply, Refused};
use crate::policy;
use crate::server::{warning, Call, Opened};

/// Sets keys to what the primary decided.
pub(crate) fn keys(call: &Call) {
    if !call.must_obey() {
        return Error::Internal.answer(call);
    }
    let words = call.argc().saturating_sub(1);
    let mut outcome = if words.is_multiple_of(2) { Ok(()) } else { Err(Error::Syntax) };
    for at in (1..words).step_by(2) {
        // A refused change must not keep the others of its call from the keys that they fit.
        if let Err(error) = one(call, at) {
            outcome = Err(error);
        }
    }
    // A replica with an AOF or replicas of its own passes on what it got.
    call.replicate_verbatim();
    match outcome {
        Ok(()) => call.ok(),
        Err(error) => {
            warning(format_args!(
                "rl: a replicated change was refused: this node no longer agrees with its primary"
            ));
            error.answer(call);
        }
    }
}

fn one(call: &Call, at: usize) -> Result<(), Error> {
    let mut key = call.open_write(at);
    if key.opened() == Opened::Foreign {
        return Err(Error::WrongType);
    }
    let change = call.arg(at.saturating_add(1));
    let applied = apply(change, key.value_mut()).map_err(|refused| match refused {
        Refused::Malformed => Error::Syntax,
        Refused::OtherState => Error::OtherState,
    })?;
    key.create(applied.limiter);
    if let Some(at) = applied.expire_at {
        key.set_expire_at(at);
    }
    drop(key);
    call.signal_modified(at);
    Ok(())
}

/// Sets or deletes policies as the primary did.
pub(crate) fn policies(call: &Call) {
    if !call.must_obey() {
        return Error::Internal.answer(call);
    }
    let applied = policy::apply(call.arg(1));
    call.replicate_verbatim();
    if applied {
        call.ok();
    } else {
        warning(format_args!("rl: a replicated policy was refused: its bytes are malformed"));
        Error::Syntax.answer(call);
    }
}
