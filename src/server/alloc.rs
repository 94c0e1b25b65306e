//! The server's allocator as Rust's.
//!
//! Before the API is found, and in a process that is no server (`cargo test`), memory is the system's. A
//! block must go back to where it came from, so `entry` allocates nothing before it has the API.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::c_void;
use std::ptr;

/// What every build of the server's allocator guarantees: where it keeps the size in front of the block
/// itself, a block is aligned to no more than a pointer.
pub(crate) const SERVER_ALIGN: usize = 8;

/// The server's memory when there is a server, the system's otherwise.
pub(crate) struct ServerAlloc;

/// A size class is only as aligned as it is large.
#[inline]
fn rounded(layout: Layout) -> usize {
    layout.pad_to_align().size()
}

/// A block of stricter alignment: larger than asked for, the server's own pointer kept right before it.
///
/// # Safety
/// As for `GlobalAlloc::alloc`, with an alignment above [`SERVER_ALIGN`].
unsafe fn alloc_aligned(
    alloc: unsafe extern "C" fn(usize) -> *mut c_void,
    layout: Layout,
) -> *mut u8 {
    let Some(size) = layout.size().checked_add(layout.align()) else {
        return ptr::null_mut();
    };
    // SAFETY: the server's allocator takes any size.
    let base = unsafe { alloc(size) }.cast::<u8>();
    if base.is_null() {
        return base;
    }
    // The block begins on a multiple of 8, so the next multiple of `align` (a larger power of two) is at
    // least 8 bytes further on: room for one pointer.
    let address = base.addr();
    let skip = layout.align().wrapping_sub(address & layout.align().wrapping_sub(1));
    // SAFETY: 8 <= skip <= align, so the pointer and `layout.size()` bytes after it lie within the block.
    unsafe {
        let block = base.add(skip);
        block.cast::<*mut u8>().sub(1).write(base);
        block
    }
}

// SAFETY: every block comes from the server's allocator or from `System` and goes back to the same one (see
// the module's text); sizes and alignments are kept as the functions below say.
unsafe impl GlobalAlloc for ServerAlloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match api!(RedisModule_Alloc) {
            Some(alloc) if layout.align() <= SERVER_ALIGN => {
                // SAFETY: the server's allocator takes any size.
                unsafe { alloc(rounded(layout)) }.cast()
            }
            // SAFETY: the alignment is above SERVER_ALIGN.
            Some(alloc) => unsafe { alloc_aligned(alloc, layout) },
            // SAFETY: passed on as it came.
            None => unsafe { System.alloc(layout) },
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match api!(RedisModule_Free) {
            // SAFETY: `alloc` got this block from the server.
            Some(free) if layout.align() <= SERVER_ALIGN => unsafe { free(block.cast()) },
            // SAFETY: `alloc_aligned` wrote the server's pointer right before the block.
            Some(free) => unsafe { free(block.cast::<*mut c_void>().sub(1).read()) },
            // SAFETY: passed on as it came.
            None => unsafe { System.dealloc(block, layout) },
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match api!(RedisModule_Calloc) {
            Some(calloc) if layout.align() <= SERVER_ALIGN => {
                // SAFETY: the server's allocator takes any size.
                unsafe { calloc(1, rounded(layout)) }.cast()
            }
            Some(_) => {
                // SAFETY: passed on as it came.
                let block = unsafe { self.alloc(layout) };
                if !block.is_null() {
                    // SAFETY: the block has at least `size` bytes.
                    unsafe { ptr::write_bytes(block, 0, layout.size()) };
                }
                block
            }
            // SAFETY: passed on as it came.
            None => unsafe { System.alloc_zeroed(layout) },
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller promises a valid size for this alignment.
        let wanted = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        match api!(RedisModule_Realloc) {
            Some(realloc) if layout.align() <= SERVER_ALIGN => {
                // SAFETY: `alloc` got this block from the server.
                unsafe { realloc(block.cast(), rounded(wanted)) }.cast()
            }
            Some(_) => {
                // SAFETY: passed on as it came.
                let new = unsafe { self.alloc(wanted) };
                if !new.is_null() {
                    // SAFETY: both blocks hold the smaller of the two sizes, and are distinct; the old one is
                    // given back as it came.
                    unsafe {
                        ptr::copy_nonoverlapping(block, new, layout.size().min(new_size));
                        self.dealloc(block, layout);
                    }
                }
                new
            }
            // SAFETY: passed on as it came.
            None => unsafe { System.realloc(block, layout, new_size) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn offset_malloc(size: usize) -> *mut c_void {
        // Like a server that keeps a size in front: 8 bytes off a 16-byte boundary.
        // SAFETY: the size is not 0, and 8 bytes on is within the block.
        unsafe { System.alloc(Layout::from_size_align(size + 16, 16).unwrap()).add(8).cast() }
    }

    #[test]
    fn strict_alignment_is_kept_on_a_loose_allocator() {
        for align in [16usize, 32, 64, 4096] {
            for size in [1usize, 8, 24, 100] {
                let layout = Layout::from_size_align(size, align).unwrap();
                // SAFETY: the block is as large as the layout says, the pointer before it is its base.
                unsafe {
                    let block = alloc_aligned(offset_malloc, layout);
                    assert_eq!(block.addr() % align, 0);
                    ptr::write_bytes(block, 0xff, size);
                    let base = block.cast::<*mut u8>().sub(1).read();
                    assert!(block.addr() - base.addr() >= 8 && block.addr() - base.addr() <= align);
                }
            }
        }
    }
}
