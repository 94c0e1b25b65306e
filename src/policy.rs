//! Stub: stands in for the named rule lists until they are merged.
use std::sync::Mutex;

static POLICIES: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// Test only: adds one blob.
pub fn add(blob: &[u8]) {
    if let Ok(mut policies) = POLICIES.lock() {
        if !policies.iter().any(|p| p == blob) {
            policies.push(blob.to_vec());
        }
    }
}

/// All policies as one block of bytes; nothing if there is none.
pub fn save(out: &mut Vec<u8>) {
    for_each_blob(&mut |b| {
        out.extend_from_slice(b);
        out.push(b',');
    });
}

/// Replaces all policies by those that [`save`] wrote; false if the bytes are not that.
pub fn load(bytes: &[u8]) -> bool {
    clear();
    for blob in bytes.split(|b| *b == b',').filter(|b| !b.is_empty()) {
        add(blob);
    }
    true
}

/// Forgets all policies.
pub fn clear() {
    if let Ok(mut policies) = POLICIES.lock() {
        policies.clear();
    }
}

/// One idempotent `rl.p` blob per policy.
pub fn for_each_blob(f: &mut dyn FnMut(&[u8])) {
    if let Ok(policies) = POLICIES.lock() {
        for policy in policies.iter() {
            f(policy);
        }
    }
}
