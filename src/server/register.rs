//! Makes the server know the commands of the table.

use super::log;
use crate::command::spec::{Arg, CommandSpec, Keys, Kind};
use redis_module::raw;
use std::ffi::{c_char, c_int, CString};
use std::fmt;
use std::ptr;

/// Our own ACL category, where the server takes one.
const CATEGORY: &str = "ratelimit";

/// Registers all commands. Says what is wrong where the load must fail.
///
/// # Safety
/// The context of a module that is being loaded.
pub(super) unsafe fn commands(
    ctx: *mut raw::RedisModuleCtx,
    table: &[CommandSpec],
) -> Result<(), String> {
    // SAFETY: as the caller promises.
    unsafe {
        let own_category = add_category(ctx);
        for spec in table {
            command(ctx, spec, own_category)?;
        }
    }
    Ok(())
}

/// Adds our ACL category; false where the server has no such thing.
unsafe fn add_category(ctx: *mut raw::RedisModuleCtx) -> bool {
    let Some(name) = c_string(CATEGORY) else {
        return false;
    };
    let refused = raw::REDISMODULE_ERR as c_int;
    // SAFETY: the caller passes the context.
    unsafe {
        call_api!(RedisModule_AddACLCategory(ctx, name.as_ptr()) else refused)
            == raw::REDISMODULE_OK as c_int
    }
}

unsafe fn command(
    ctx: *mut raw::RedisModuleCtx,
    spec: &CommandSpec,
    own_category: bool,
) -> Result<(), String> {
    let name = spec.name;
    // SAFETY: the caller passes the context; a command that the server hands out lives as long as the module.
    unsafe {
        if !create(spec, |name, code, flags, (first, last, step)| {
            call_api!(RedisModule_CreateCommand(ctx, name, code, flags, first, last, step)
                else raw::REDISMODULE_ERR as c_int)
        }) {
            return if spec.may_be_taken {
                log::notice(format_args!("rl: {name} is taken by another module: left to it"));
                Ok(())
            } else {
                Err(format!("the command {name} is taken by another module"))
            };
        }
        let made = find(ctx, name);
        if made.is_null() {
            return Err(format!("the command {name} could not be made"));
        }
        describe(made, name, spec, own_category)?;
        for sub in spec.subcommands {
            let full = format!("{name}|{}", sub.name);
            let done = create(sub, |name, code, flags, (first, last, step)| {
                call_api!(RedisModule_CreateSubcommand(made, name, code, flags, first, last, step)
                    else raw::REDISMODULE_ERR as c_int)
            });
            let made = find(ctx, &full);
            if !done || made.is_null() {
                return Err(format!("the command {full} could not be made"));
            }
            describe(made, &full, sub, own_category)?;
        }
    }
    Ok(())
}

/// Creates a command by the API function given.
fn create(
    spec: &CommandSpec,
    by: impl Fn(*const c_char, raw::RedisModuleCmdFunc, *const c_char, (c_int, c_int, c_int)) -> c_int,
) -> bool {
    // The old form of key specs, which routes in a cluster. A keynum has no such form: `getkeys-api` does it.
    let range = match spec.keys {
        Keys::None | Keys::Counted(_) => (0, 0, 0),
        Keys::First(_) => (1, 1, 1),
        Keys::Pairs(_) => (1, -1, 2),
    };
    let code = spec.handler.and_then(super::Handler::pointer);
    let with = |flags: &str| match (c_string(spec.name), c_string(flags)) {
        (Some(name), Some(flags)) => {
            by(name.as_ptr(), code, flags.as_ptr(), range) == raw::REDISMODULE_OK as c_int
        }
        _ => false,
    };
    // Only Redis 8.0 and later know internal commands; the others refuse the whole call for the word, and
    // the command itself answers whom it must not obey.
    (spec.internal && with(&format!("{} internal", spec.flags))) || with(spec.flags)
}

unsafe fn find(ctx: *mut raw::RedisModuleCtx, name: &str) -> *mut raw::RedisModuleCommand {
    match c_string(name) {
        // SAFETY: the caller passes the context.
        Some(name) => unsafe {
            call_api!(RedisModule_GetCommand(ctx, name.as_ptr()) else ptr::null_mut())
        },
        None => ptr::null_mut(),
    }
}

/// Arity, key specs, documentation and ACL categories.
unsafe fn describe(
    command: *mut raw::RedisModuleCommand,
    name: &str,
    spec: &CommandSpec,
    own_category: bool,
) -> Result<(), String> {
    let version = raw::RedisModuleCommandInfoVersion {
        version: 1,
        sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
        sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
        sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
    };
    let mut memory = Memory::default();
    // SAFETY: the structure is plain C data, for which zeros mean "nothing"; all it points to lives until the
    // server has copied it; the command is one that the server has handed out.
    let answer = unsafe {
        let mut info: raw::RedisModuleCommandInfo = std::mem::zeroed();
        info.version = &version;
        info.summary = memory.text(spec.summary);
        info.complexity = memory.text(spec.complexity);
        info.since = memory.text(spec.since);
        info.tips = memory.text(spec.tips);
        info.arity = spec.arity;
        let mut keys = key_specs(spec.keys);
        info.key_specs = keys.as_mut_ptr();
        info.args = memory.args(spec.args);
        call_api!(RedisModule_SetCommandInfo(command, &info) else raw::REDISMODULE_ERR as c_int)
    };
    if answer != raw::REDISMODULE_OK as c_int {
        return Err(format!("the server does not take the description of {name}"));
    }
    let Some(acl) = spec.acl else {
        return Ok(());
    };
    // One word that the server does not know spoils the whole call.
    let words = if own_category { format!("{acl} {CATEGORY}") } else { acl.to_string() };
    let (Some(set), false) = (api!(RedisModule_SetCommandACLCategories), words.trim().is_empty())
    else {
        return Ok(());
    };
    let words = memory.text(words.trim());
    // SAFETY: the command is one that the server has handed out, the words end with NUL.
    if unsafe { set(command, words) } != raw::REDISMODULE_OK as c_int {
        return Err(format!("the server does not take the ACL categories of {name}"));
    }
    Ok(())
}

/// The key specs of a command, with the empty one that ends the list.
fn key_specs(keys: Keys) -> [raw::RedisModuleCommandKeySpec; 2] {
    // SAFETY: plain C data, for which zeros mean "nothing".
    let [mut spec, end] = unsafe { std::mem::zeroed::<[raw::RedisModuleCommandKeySpec; 2]>() };
    let access = match keys {
        Keys::None => return [spec, end],
        Keys::First(access) | Keys::Counted(access) | Keys::Pairs(access) => access,
    };
    spec.flags = u64::from(access.flags());
    spec.begin_search_type = raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX;
    spec.bs.index.pos = 1;
    if matches!(keys, Keys::Counted(_)) {
        spec.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_KEYNUM;
        spec.fk.keynum = raw::RedisModuleCommandKeySpec__bindgen_ty_2__bindgen_ty_2 {
            keynumidx: 0,
            firstkey: 1,
            keystep: 1,
        };
    } else {
        let (lastkey, keystep) = if matches!(keys, Keys::Pairs(_)) { (-1, 2) } else { (0, 1) };
        spec.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE;
        spec.fk.range = raw::RedisModuleCommandKeySpec__bindgen_ty_2__bindgen_ty_1 {
            lastkey,
            keystep,
            limit: 0,
        };
    }
    [spec, end]
}

/// Keeps what a description points to until the server has copied it.
#[derive(Default)]
struct Memory {
    texts: Vec<CString>,
    lists: Vec<Box<[raw::RedisModuleCommandArg]>>,
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Memory")
    }
}

impl Memory {
    /// The text as C reads it; null for none.
    fn text(&mut self, text: &str) -> *const c_char {
        match c_string(text) {
            Some(text) if !text.is_empty() => {
                let pointer = text.as_ptr();
                self.texts.push(text);
                pointer
            }
            _ => ptr::null(),
        }
    }

    /// The arguments as C reads them, with the empty one that ends the list; null for none.
    fn args(&mut self, args: &[Arg]) -> *mut raw::RedisModuleCommandArg {
        if args.is_empty() {
            return ptr::null_mut();
        }
        let mut list: Vec<raw::RedisModuleCommandArg> =
            args.iter().map(|arg| self.arg(arg)).collect();
        // SAFETY: plain C data, for which zeros mean "nothing".
        list.push(unsafe { std::mem::zeroed() });
        let mut list = list.into_boxed_slice();
        let pointer = list.as_mut_ptr();
        self.lists.push(list);
        pointer
    }

    fn arg(&mut self, arg: &Arg) -> raw::RedisModuleCommandArg {
        let (kind, inner): (_, &[Arg]) = match arg.kind {
            Kind::Key => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY, &[]),
            Kind::Text => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING, &[]),
            Kind::Integer => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER, &[]),
            Kind::Token => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN, &[]),
            Kind::OneOf(inner) => {
                (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF, inner)
            }
            Kind::Block(inner) => {
                (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_BLOCK, inner)
            }
        };
        let mut flags = 0;
        if arg.optional {
            flags |= raw::REDISMODULE_CMD_ARG_OPTIONAL;
        }
        if arg.multiple {
            flags |= raw::REDISMODULE_CMD_ARG_MULTIPLE;
        }
        // SAFETY: plain C data, for which zeros mean "nothing".
        let mut made: raw::RedisModuleCommandArg = unsafe { std::mem::zeroed() };
        made.name = self.text(arg.name);
        made.type_ = kind;
        made.token = self.text(arg.token);
        made.flags = flags.cast_signed();
        made.subargs = self.args(inner);
        made
    }
}

/// None for a text with a NUL in it, which the table does not have.
fn c_string(text: &str) -> Option<CString> {
    CString::new(text).ok()
}
