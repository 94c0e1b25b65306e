//! All commands as data: what the server, its access control and `redis-cli` know of them.

use super::spec::{Arg, CommandSpec, Keys, BASE};
use super::{charge, inspect, internal, mcharge, peek, policy, refund, throttle, top};
use crate::server::{Access, Handler};

/// A command on one limiter of one rule.
const CHARGE_ONE: CommandSpec = CommandSpec {
    flags: "write deny-oom fast",
    arity: -4,
    keys: Keys::First(Access::Update),
    acl: Some("write fast"),
    tips: "nondeterministic_output",
    ..BASE
};

const PER: Arg = Arg::text("period").after("PER").optional();
const BLOCKS: Arg = Arg::integer("blocks").after("BLOCKS").optional();
const ALIGN: Arg = Arg::text("offset").after("ALIGN").optional();
const FORCE: Arg = Arg::flag("force", "FORCE").optional();
const COST: Arg = Arg::integer("cost").after("COST").optional();
const COSTS: Arg = COST.multiple();

const TOKEN_RULE: Arg =
    Arg::block("token", &[Arg::integer("capacity"), Arg::integer("rate"), PER]).after("TOKEN");
const LEAKY_RULE: Arg =
    Arg::block("leaky", &[Arg::integer("capacity"), Arg::integer("rate"), PER]).after("LEAKY");
const SLIDE_RULE: Arg =
    Arg::block("slide", &[Arg::integer("limit"), Arg::text("window"), BLOCKS]).after("SLIDE");
const FIXED_RULE: Arg =
    Arg::block("fixed", &[Arg::integer("limit"), Arg::text("window"), ALIGN]).after("FIXED");
const POLICY_RULE: Arg = Arg::text("policy").after("POLICY");

/// A rule spelled out.
const PLAIN_RULE: Arg = Arg::one_of("rule", &[TOKEN_RULE, LEAKY_RULE, SLIDE_RULE, FIXED_RULE]);
/// A rule, or a policy that stands for some.
const RULE: Arg =
    Arg::one_of("rule", &[TOKEN_RULE, LEAKY_RULE, SLIDE_RULE, FIXED_RULE, POLICY_RULE]);

/// All commands, in the order in which they are registered.
pub(crate) static COMMANDS: &[CommandSpec] = &[
    CommandSpec {
        name: "rl.token",
        handler: Some(Handler::of(charge::token)),
        summary: "Charges a token bucket: bursts up to the capacity, refilled continuously.",
        args: &[Arg::key(), Arg::integer("capacity"), Arg::integer("rate"), PER, FORCE, COST],
        ..CHARGE_ONE
    },
    CommandSpec {
        name: "rl.leaky",
        handler: Some(Handler::of(charge::leaky)),
        summary:
            "Charges a leaky bucket: says how long to wait so that work leaves at an even rate.",
        args: &[Arg::key(), Arg::integer("capacity"), Arg::integer("rate"), PER, FORCE, COST],
        ..CHARGE_ONE
    },
    CommandSpec {
        name: "rl.slide",
        handler: Some(Handler::of(charge::slide)),
        summary: "Charges a sliding window: never more than the limit in any trailing window.",
        complexity: "O(N) with N the entries that have left the window, O(1) amortized",
        args: &[Arg::key(), Arg::integer("limit"), Arg::text("window"), BLOCKS, FORCE, COST],
        ..CHARGE_ONE
    },
    CommandSpec {
        name: "rl.fixed",
        handler: Some(Handler::of(charge::fixed)),
        summary: "Charges a fixed window: opened by its first charge, or aligned to the clock.",
        args: &[Arg::key(), Arg::integer("limit"), Arg::text("window"), ALIGN, FORCE, COST],
        ..CHARGE_ONE
    },
    CommandSpec {
        name: "rl.charge",
        handler: Some(Handler::of(charge::charge)),
        flags: "write deny-oom",
        acl: Some("write"),
        summary: "Charges several rules on one key, all or nothing.",
        complexity: "O(N) with N the number of rules",
        args: &[Arg::key(), RULE.multiple(), FORCE, COSTS],
        ..CHARGE_ONE
    },
    CommandSpec {
        name: "rl.mcharge",
        handler: Some(Handler::of(mcharge::mcharge)),
        flags: "write deny-oom getkeys-api",
        arity: -5,
        keys: Keys::Counted(Access::Update),
        acl: Some("write"),
        summary: "Charges the i-th rule on the i-th key, all or nothing.",
        complexity: "O(N) with N the number of rules",
        args: &[Arg::integer("numkeys"), Arg::key().multiple(), RULE.multiple(), FORCE, COSTS],
        ..CHARGE_ONE
    },
    CommandSpec {
        name: "rl.peek",
        handler: Some(Handler::of(peek::peek)),
        flags: "readonly fast",
        arity: -2,
        keys: Keys::First(Access::Read),
        acl: Some("read fast"),
        summary: "Answers whether a charge would pass now, without making it.",
        complexity: "O(N) with N the number of rules and log entries",
        tips: "nondeterministic_output",
        args: &[Arg::key(), RULE.optional().multiple(), COSTS],
        ..BASE
    },
    CommandSpec {
        name: "rl.refund",
        handler: Some(Handler::of(refund::refund)),
        flags: "write fast",
        arity: -2,
        keys: Keys::First(Access::Update),
        acl: Some("write fast"),
        summary: "Gives cost back that was charged before.",
        complexity: "O(N) with N the number of rules and of log entries newer than those refunded",
        tips: "nondeterministic_output",
        args: &[Arg::key(), Arg::text("age").after("AGE").optional(), COSTS],
        ..BASE
    },
    CommandSpec {
        name: "rl.inspect",
        handler: Some(Handler::of(inspect::inspect)),
        flags: "readonly fast",
        arity: 2,
        keys: Keys::First(Access::Read),
        acl: Some("read fast"),
        summary: "Shows the settings and the state of a key's rules.",
        complexity: "O(N) with N the number of rules and log entries",
        tips: "nondeterministic_output",
        args: &[Arg::key()],
        ..BASE
    },
    CommandSpec {
        name: "rl.policy",
        arity: -2,
        summary: "A container for commands on named rule lists.",
        complexity: "Depends on subcommand.",
        subcommands: &[
            CommandSpec {
                name: "set",
                handler: Some(Handler::of(policy::set)),
                flags: "write deny-oom",
                arity: -4,
                acl: Some("write admin dangerous"),
                summary: "Creates or changes a named rule list.",
                complexity: "O(N) with N the number of rules",
                tips: "request_policy:all_shards response_policy:all_succeeded",
                args: &[
                    Arg::text("name"),
                    PLAIN_RULE.multiple(),
                    Arg::flag("shadow", "SHADOW").optional(),
                ],
                ..BASE
            },
            CommandSpec {
                name: "get",
                handler: Some(Handler::of(policy::get)),
                flags: "readonly fast",
                arity: 3,
                acl: Some("read fast"),
                summary: "Shows a named rule list and its counters on this node.",
                complexity: "O(N) with N the number of rules",
                tips: "nondeterministic_output",
                args: &[Arg::text("name")],
                ..BASE
            },
            CommandSpec {
                name: "del",
                handler: Some(Handler::of(policy::del)),
                flags: "write",
                arity: -3,
                acl: Some("write admin dangerous"),
                summary: "Deletes named rule lists.",
                complexity: "O(N) with N the number of names",
                tips: "request_policy:all_shards response_policy:agg_min",
                args: &[Arg::text("name").multiple()],
                ..BASE
            },
            CommandSpec {
                name: "list",
                handler: Some(Handler::of(policy::list)),
                flags: "readonly",
                arity: 2,
                acl: Some("read"),
                summary: "Lists the names of all rule lists.",
                complexity: "O(N) with N the number of rule lists",
                ..BASE
            },
            CommandSpec {
                name: "help",
                handler: Some(Handler::of(policy::help)),
                flags: "allow-loading allow-stale fast",
                arity: 2,
                acl: Some("fast"),
                summary: "Shows helpful text about the subcommands.",
                ..BASE
            },
        ],
        ..BASE
    },
    CommandSpec {
        name: "rl.top",
        handler: Some(Handler::of(top::top)),
        flags: "readonly fast",
        arity: -1,
        acl: Some("read fast admin dangerous"),
        summary: "Lists the keys that were denied most, by approximate counts.",
        complexity: "O(N*log(N)) with N the number of keys kept",
        tips: "nondeterministic_output",
        args: &[
            Arg::integer("count").after("COUNT").optional(),
            Arg::flag("reset", "RESET").optional(),
        ],
        ..BASE
    },
    CommandSpec {
        name: "cl.throttle",
        handler: Some(Handler::of(throttle::throttle)),
        arity: -5,
        summary: "Charges a token bucket by the arguments and with the reply of redis-cell.",
        args: &[
            Arg::key(),
            Arg::integer("max_burst"),
            Arg::integer("count"),
            Arg::integer("period"),
            Arg::integer("quantity").optional(),
        ],
        may_be_taken: true,
        ..CHARGE_ONE
    },
    // No deny-oom: a replica that is full must still follow its primary. No ACL category: nobody is to be
    // given it by accident.
    CommandSpec {
        name: "rl.x",
        handler: Some(Handler::of(internal::keys)),
        flags: "write fast",
        arity: -3,
        keys: Keys::Pairs(Access::Update),
        acl: None,
        summary: "Internal: carries the state of keys to replicas and the AOF.",
        internal: true,
        ..BASE
    },
    CommandSpec {
        name: "rl.p",
        handler: Some(Handler::of(internal::policies)),
        flags: "write fast",
        arity: 2,
        acl: None,
        summary: "Internal: carries policies to replicas and the AOF.",
        internal: true,
        ..BASE
    },
];

#[cfg(test)]
mod tests {
    use super::super::spec::Kind;
    use super::*;

    fn each(check: &mut dyn FnMut(&CommandSpec)) {
        for spec in COMMANDS {
            check(spec);
            spec.subcommands.iter().for_each(&mut *check);
        }
    }

    #[test]
    fn flags_and_keys_agree() {
        each(&mut |spec| {
            let has = |flag: &str| spec.flags.split(' ').any(|f| f == flag);
            let access = match spec.keys {
                Keys::None => None,
                Keys::First(access) | Keys::Counted(access) | Keys::Pairs(access) => Some(access),
            };
            assert!(!(has("write") && has("readonly")), "{}", spec.name);
            assert!(!has("deny-oom") || has("write"), "{}", spec.name);
            assert_eq!(has("getkeys-api"), matches!(spec.keys, Keys::Counted(_)), "{}", spec.name);
            assert!(access != Some(Access::Update) || has("write"), "{}", spec.name);
            assert!(access != Some(Access::Read) || has("readonly"), "{}", spec.name);
            assert_eq!(spec.handler.is_none(), !spec.subcommands.is_empty(), "{}", spec.name);
            if let (Some(acl), true) = (spec.acl, spec.handler.is_some()) {
                let listed = |word: &str| acl.split(' ').any(|w| w == word);
                assert_eq!(listed("write"), has("write"), "{}", spec.name);
                assert_eq!(listed("read"), has("readonly"), "{}", spec.name);
                assert_eq!(listed("fast"), has("fast"), "{}", spec.name);
            }
        });
    }

    #[test]
    fn every_command_is_documented() {
        fn check(args: &[Arg]) {
            let mut names: Vec<_> = args.iter().map(|arg| arg.name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), args.len(), "{names:?}");
            for arg in args {
                assert!(!matches!(arg.kind, Kind::Token) || !arg.token.is_empty(), "{}", arg.name);
                if let Kind::OneOf(inner) | Kind::Block(inner) = arg.kind {
                    assert!(!inner.is_empty());
                    check(inner);
                }
            }
        }
        each(&mut |spec| {
            assert!(!spec.summary.is_empty() && spec.arity != 0, "{}", spec.name);
            assert!(!spec.internal || (spec.acl.is_none() && !spec.flags.contains("deny-oom")));
            check(spec.args);
        });
    }
}
