// First-fit allocator without headers: the ABI's `free` tells the size, so only holes need a record,
// and a hole has room for its own. Holes are kept in ascending order and never touch each other.
#include "alloc.h"

typedef struct hole {
    uint32_t bytes;
    uint32_t next;  // address of the next hole, 0 = none
} hole;

enum { ALIGNMENT = 16 };

static uint32_t first_hole;
static uint32_t heap_begin;  // 0 until the first call
static uint64_t heap_end;    // 64-bit: the end of a full 4 GiB memory does not fit 32 bits

static hole *hole_at(uint32_t address) { return at_address(address); }

// Every block is a multiple of 16 bytes; 64-bit, because rounding up 2^32 - 1 overflows.
static uint64_t block_bytes(uint32_t bytes) {
    return bytes == 0 ? ALIGNMENT : ((uint64_t)bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

// Puts [address, address + bytes), which overlaps no hole, into the list and joins it with the
// neighbours it touches.
static void add_hole(uint32_t address, uint32_t bytes) {
    uint32_t before = 0, after = first_hole;
    while (after != 0 && after < address) {
        before = after;
        after = hole_at(after)->next;
    }
    if (after != 0 && address + bytes == after) {
        bytes += hole_at(after)->bytes;
        after = hole_at(after)->next;
    }
    if (before != 0 && before + hole_at(before)->bytes == address) {
        hole_at(before)->bytes += bytes;
        hole_at(before)->next = after;
        return;
    }
    *hole_at(address) = (hole){bytes, after};
    if (before == 0) first_hole = address;
    else hole_at(before)->next = address;
}

static void start_heap(void) {
    if (heap_begin != 0) return;
    heap_begin = (platform_heap_begin() + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    heap_end = platform_heap_end();
    if (heap_end > heap_begin) add_hole(heap_begin, (uint32_t)(heap_end - heap_begin));
}

// Grows by what is missing behind a hole that already reaches the end. False at the maximum.
static bool grow_heap(uint64_t need) {
    uint32_t last = first_hole;
    while (last != 0 && hole_at(last)->next != 0) last = hole_at(last)->next;
    if (last != 0 && (uint64_t)last + hole_at(last)->bytes == heap_end) need -= hole_at(last)->bytes;

    uint64_t pages = (need + PAGE_BYTES - 1) / PAGE_BYTES;
    if (pages > UINT32_MAX / PAGE_BYTES || !platform_grow((uint32_t)pages)) return false;
    add_hole((uint32_t)heap_end, (uint32_t)(pages * PAGE_BYTES));
    heap_end += pages * PAGE_BYTES;
    return true;
}

// Takes the front of the first hole that is large enough; 0 when there is none.
static uint32_t take(uint32_t need) {
    uint32_t before = 0;
    for (uint32_t address = first_hole; address != 0; before = address, address = hole_at(address)->next) {
        hole found = *hole_at(address);
        if (found.bytes < need) continue;
        uint32_t rest = found.next;
        if (found.bytes > need) {
            rest = address + need;
            *hole_at(rest) = (hole){found.bytes - need, found.next};
        }
        if (before == 0) first_hole = rest;
        else hole_at(before)->next = rest;
        return address;
    }
    return 0;
}

WEEI_EXPORT("alloc") uint32_t weei_alloc(uint32_t bytes) {
    start_heap();
    uint64_t need = block_bytes(bytes);
    if (need > UINT32_MAX) return 0;
    uint32_t address = take((uint32_t)need);
    if (address != 0 || !grow_heap(need)) return address;
    return take((uint32_t)need);
}

WEEI_EXPORT("free") void weei_free(uint32_t address, uint32_t bytes) {
    uint64_t size = block_bytes(bytes);
    if (address % ALIGNMENT == 0 && weei_is_live(address, size)) add_hole(address, (uint32_t)size);
}

bool weei_is_live(uint64_t address, uint64_t bytes) {
    start_heap();
    if (address < heap_begin || address > heap_end || bytes > heap_end - address) return false;
    for (uint32_t hole = first_hole; hole != 0 && hole < address + bytes; hole = hole_at(hole)->next)
        if ((uint64_t)hole + hole_at(hole)->bytes > address) return false;
    return true;
}
