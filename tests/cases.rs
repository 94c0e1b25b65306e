//! The case files, each against a real server whose clock the cases set, in RESP2 and in RESP3.
//! The format is described in `support/cases.rs`.

mod support;

/// One test per file of `tests/cases`.
macro_rules! case_files {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                let file = concat!("tests/cases/", stringify!($name), ".txt");
                support::cases::run(file, include_str!(concat!("cases/", stringify!($name), ".txt")));
            }
        )*

        /// A file that nobody runs would be a promise that nobody checks.
        #[test]
        fn every_file_is_run() {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases");
            let mut found: Vec<String> = std::fs::read_dir(folder)
                .expect("tests/cases")
                .map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned())
                .filter(|name| name.ends_with(".txt"))
                .collect();
            found.sort();
            let mut run = vec![$(concat!(stringify!($name), ".txt").to_owned()),*];
            run.sort();
            assert_eq!(found, run);
        }
    };
}

case_files! { core layers reports spec arguments readings }
