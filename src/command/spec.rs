//! The form in which the table describes a command.

use crate::server::{Access, Handler};

/// One word, or group of words, in the documentation of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arg {
    /// What it is called; unique among its neighbours.
    pub(crate) name: &'static str,
    /// What it is.
    pub(crate) kind: Kind,
    /// The keyword before it (the word itself for [`Kind::Token`]); empty for none.
    pub(crate) token: &'static str,
    /// It may be left out.
    pub(crate) optional: bool,
    /// It may be repeated; the keyword is not.
    pub(crate) multiple: bool,
}

/// What a documented word is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// A key.
    Key,
    /// Any text.
    Text,
    /// An integer.
    Integer,
    /// The keyword and nothing else.
    Token,
    /// One of these.
    OneOf(&'static [Arg]),
    /// All of these.
    Block(&'static [Arg]),
}

impl Arg {
    pub(super) const fn new(name: &'static str, kind: Kind) -> Self {
        Arg { name, kind, token: "", optional: false, multiple: false }
    }

    pub(super) const fn key() -> Self {
        Arg::new("key", Kind::Key)
    }

    pub(super) const fn integer(name: &'static str) -> Self {
        Arg::new(name, Kind::Integer)
    }

    pub(super) const fn text(name: &'static str) -> Self {
        Arg::new(name, Kind::Text)
    }

    /// A keyword that stands alone.
    pub(super) const fn flag(name: &'static str, token: &'static str) -> Self {
        Arg::new(name, Kind::Token).after(token)
    }

    pub(super) const fn one_of(name: &'static str, choices: &'static [Arg]) -> Self {
        Arg::new(name, Kind::OneOf(choices))
    }

    pub(super) const fn block(name: &'static str, words: &'static [Arg]) -> Self {
        Arg::new(name, Kind::Block(words))
    }

    pub(super) const fn after(mut self, token: &'static str) -> Self {
        self.token = token;
        self
    }

    pub(super) const fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    pub(super) const fn multiple(mut self) -> Self {
        self.multiple = true;
        self
    }
}

/// Where the keys of a command are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Keys {
    /// There are none.
    None,
    /// The first word.
    First(Access),
    /// The first word says how many words after it are keys. Needs the flag `getkeys-api`.
    Counted(Access),
    /// Every second word, from the first on.
    Pairs(Access),
}

/// One command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandSpec {
    /// Its name, in lower case; of a subcommand only its own.
    pub(crate) name: &'static str,
    /// Its code; none for a mere container of subcommands.
    pub(crate) handler: Option<Handler>,
    /// Flags, in the words of the module API.
    pub(crate) flags: &'static str,
    /// How many words, the command's own included (two for a subcommand); negative: at least.
    pub(crate) arity: i32,
    /// Where its keys are.
    pub(crate) keys: Keys,
    /// ACL categories of the server, to which our own is added; none: no category at all.
    pub(crate) acl: Option<&'static str>,
    /// What it does.
    pub(crate) summary: &'static str,
    /// What it costs.
    pub(crate) complexity: &'static str,
    /// The version of the module that brought it.
    pub(crate) since: &'static str,
    /// Hints for clients and proxies, separated by spaces.
    pub(crate) tips: &'static str,
    /// Its words.
    pub(crate) args: &'static [Arg],
    /// Its subcommands.
    pub(crate) subcommands: &'static [CommandSpec],
    /// Known only to the server's own streams, where the server can hide it.
    pub(crate) internal: bool,
    /// The load goes on without it if another module has the name.
    pub(crate) may_be_taken: bool,
}

/// What most commands have in common.
pub(super) const BASE: CommandSpec = CommandSpec {
    name: "",
    handler: None,
    flags: "",
    arity: 0,
    keys: Keys::None,
    acl: Some(""),
    summary: "",
    complexity: "O(1)",
    since: "0.1.0",
    tips: "",
    args: &[],
    subcommands: &[],
    internal: false,
    may_be_taken: false,
};
