//! The short ways (`solo`, `steady`) are taken where they may be and nowhere else. That they then say
//! the same as the long one is shown by the sequences against the model.

use super::codec::Trail;
use super::proofs::{store, START};
use super::steady::Steady;
use super::time::Micros;
use super::*;

const NO_TRAIL: Trail<'static> = Trail { names: &[], versions: &[] };

fn token(capacity: u64) -> Rule {
    Rule::Token(Bucket::new(capacity, 1, 3_600_000).expect("settings"))
}

fn leaky(capacity: u64) -> Rule {
    Rule::Leaky(Bucket::new(capacity, 1, 3_600_000).expect("settings"))
}

fn slide(limit: u64) -> Rule {
    Rule::Slide(Slide::new(limit, 60_000, None).expect("settings"))
}

const fn ask(rule: Rule, cost: u64) -> Ask {
    Ask { rule, cost, shadow: false }
}

const fn request<'a>(asks: &'a [Ask], trail: Trail<'a>) -> Request<'a> {
    Request { asks, trail, plain: false, force: false, max_log: 50 }
}

fn charge(held: &mut Option<Limiter>, asks: &[Ask], trail: Trail<'_>, now: Micros) {
    let decision = decide(held.as_ref(), request(asks, trail), now).expect("fits");
    store(held, &decision.write(decision.passes()).expect("charges"));
}

fn steady(held: &Limiter, asks: &[Ask], trail: Trail<'_>, now: Micros) -> Option<bool> {
    Steady::<3>::new(request(asks, trail), now).look(Some(held))
}

#[test]
fn one_rule() {
    let taken = |held: Option<&Limiter>, rule| {
        solo::decide(held, &ask(rule, 1), false, 50, START + 1_000).is_some()
    };
    assert!(taken(None, token(5)));
    for rule in [token(5), leaky(5), slide(5)] {
        let mut held = None;
        charge(&mut held, &[ask(rule, 1)], NO_TRAIL, START);
        assert!(taken(held.as_ref(), rule), "{rule:?}");
        assert!(taken(held.as_ref(), slide(9)) == matches!(rule, Rule::Slide(_)), "{rule:?}");
        let call = solo::decide(held.as_ref(), &ask(rule, 1), false, 50, START).expect("simple");
        let write = call.write.expect("charges");
        assert_eq!(write.full_reset_ms(), rule.full_reset_ms());
        assert_eq!(write.slack_ms(), change::slack_ms(&rule));
        assert!(write.slack_ms() > 1, "{rule:?}");
    }
    let mut two = None;
    charge(&mut two, &[ask(token(5), 1), ask(token(6), 1)], NO_TRAIL, START);
    assert!(!taken(two.as_ref(), token(5)));
}

#[test]
fn a_list() {
    let trail = |version: &'static [u8]| Trail { names: &[0, 1, b'a'], versions: version };
    let rules = [token(5), token(6), slide(7)];
    let asks = rules.map(|rule| ask(rule, 1));
    let mut held = None;
    charge(&mut held, &asks, trail(&[1]), START);
    let held = held.expect("a key");
    let now = START + 1_000;
    assert_eq!(steady(&held, &asks, trail(&[1]), now), Some(true));
    assert_eq!(steady(&held, &rules.map(|rule| ask(rule, 6)), trail(&[1]), now), Some(false));
    let mut call = Steady::<3>::new(request(&asks, trail(&[1])), now);
    assert_eq!(call.look(Some(&held)), Some(true));
    let most = |number: fn(&Rule) -> u64| rules.iter().map(number).max();
    assert_eq!(Some(call.slack_ms()), most(change::slack_ms));
    assert_eq!(Some(call.full_reset_ms()), most(Rule::full_reset_ms));
    // A policy edited since, fewer rules, other settings, a clock that stepped back, all as good as new.
    assert_eq!(steady(&held, &asks, trail(&[2]), now), None);
    assert_eq!(steady(&held, &asks[..2], trail(&[1]), now), None);
    let other = [asks[0], asks[1], ask(slide(8), 1)];
    assert_eq!(steady(&held, &other, trail(&[1]), now), None);
    assert_eq!(steady(&held, &asks, trail(&[1]), START - 1_000_000), None);
    assert_eq!(steady(&held, &asks, trail(&[1]), START + 3_600_000_000 * 7), None);
    // One that is not as good as new is enough, the others may be.
    let buckets = [ask(token(5), 1), ask(token(6), 0)];
    let mut one = None;
    charge(&mut one, &buckets, NO_TRAIL, START);
    assert_eq!(steady(&one.expect("a key"), &buckets, NO_TRAIL, now), Some(true));
    let (buckets, mut both) = (buckets.map(|b| ask(b.rule, 1)), None);
    charge(&mut both, &buckets, NO_TRAIL, START);
    assert_eq!(steady(&both.expect("a key"), &buckets, NO_TRAIL, now), Some(true));
}

#[test]
fn a_denied_call_under_an_edited_policy_still_repairs_the_clock() {
    let trail = |version: &'static [u8]| Trail { names: &[0, 1, b'a'], versions: version };
    // Only the second rule of the two carries on, and it denies.
    let writes = |before: [Ask; 2], after: [Ask; 2], now| {
        let mut held = None;
        charge(&mut held, &before, trail(&[1]), START);
        let decision = decide(held.as_ref(), request(&after, trail(&[2])), now).expect("fits");
        assert!(!decision.passes());
        decision.write(false).is_some()
    };
    let back = START - 60_000_000;
    let (before, after) =
        ([ask(token(5), 3), ask(token(2), 2)], [ask(leaky(5), 1), ask(token(2), 2)]);
    assert!(writes(before, after, back));
    assert!(!writes(before, after, START), "a write without a step");
    // The rule left aside alone is enough.
    let (before, after) =
        ([ask(token(5), 3), ask(token(1), 0)], [ask(leaky(5), 1), ask(token(1), 2)]);
    assert!(writes(before, after, back));
}
