//! How the server's API is called: each function is a pointer that may be empty.

/// The pointer of one API function, or none where this server (or no server) offers it.
macro_rules! api {
    ($name:ident) => {{
        #[allow(unused_unsafe)] // it also stands in unsafe code
        // SAFETY: written only while the server loads the module, before any other code of ours runs, and
        // only read afterwards; this copies the pointer and makes no reference to the static.
        let function = unsafe { redis_module::raw::$name };
        function
    }};
}

/// Calls one API function; answers the fallback where the server lacks it.
/// The caller answers for the arguments, so this is to be used inside `unsafe`.
macro_rules! call_api {
    ($name:ident($($arg:expr),* $(,)?) else $fallback:expr) => {
        match api!($name) {
            Some(function) => function($($arg),*),
            None => $fallback,
        }
    };
}
