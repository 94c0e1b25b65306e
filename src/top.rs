//! The keys that were denied most.
pub(crate) struct Row {
    pub(crate) key: Vec<u8>,
    pub(crate) denied: u64,
    pub(crate) db: i32,
}
pub(crate) fn denied(_db: i32, _key: &[u8]) {}
pub(crate) fn most_denied(_count: usize) -> Vec<Row> {
    Vec::new()
}
pub(crate) fn reset() {}
