//! An allocator that remembers the largest block that was asked for: bytes that lie about a length must not
//! make the module take memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static LARGEST: AtomicUsize = AtomicUsize::new(0);

struct Watched;

#[global_allocator]
static ALLOCATOR: Watched = Watched;

// SAFETY: every call goes to the system's allocator as it is.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Relaxed);
        System.alloc(layout)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        System.dealloc(block, layout);
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LARGEST.fetch_max(size, Relaxed);
        System.realloc(block, layout, size)
    }
}

/// Runs `code`; the largest block that it asked for must not exceed `most` bytes.
pub fn at_most<T>(most: usize, code: impl FnOnce() -> T) -> T {
    LARGEST.store(0, Relaxed);
    let answer = code();
    let largest = LARGEST.load(Relaxed);
    assert!(largest <= most, "a block of {largest} bytes, {most} are allowed");
    answer
}
