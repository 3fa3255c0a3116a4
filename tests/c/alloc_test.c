// The heap: blocks never overlap, wrong frees change nothing, freed memory is whole again.
#include <string.h>

#include "../../reference_models/lib/rng.h"
#include "check.h"
#include "native.h"

enum { SLOTS = 64 };
static struct {
    uint32_t address, bytes;
} live[SLOTS];

static bool holds(int slot) {
    const uint8_t *bytes = at_address(live[slot].address);
    for (uint32_t i = 0; i < live[slot].bytes; i++)
        if (bytes[i] != slot) return false;
    return true;
}

// Each block is filled with its slot's number: a block that overlapped another would change it.
static void test_blocks_keep_their_content(void) {
    rng r = rng_start(1, 0);
    for (int turn = 0; turn < 20000; turn++) {
        int slot = (int)rng_below(&r, SLOTS);
        if (live[slot].address != 0) {
            CHECK(holds(slot), "slot %d was overwritten in turn %d", slot, turn);
            weei_free(live[slot].address, live[slot].bytes);
            live[slot].address = 0;
            continue;
        }
        uint32_t bytes = rng_below(&r, turn % 10 == 0 ? 300000 : 300);
        uint32_t address = weei_alloc(bytes);
        CHECK(address % 16 == 0, "address %u", address);
        if (address == 0) continue;
        CHECK(weei_is_live(address, bytes), "%u + %u", address, bytes);
        memset(at_address(address), slot, bytes);
        live[slot].address = address;
        live[slot].bytes = bytes;
    }
    for (int slot = 0; slot < SLOTS; slot++)
        if (live[slot].address != 0) weei_free(live[slot].address, live[slot].bytes);
}

// Runs after the test above: what 20,000 allocations left must have joined into one hole again.
static void test_all_memory_comes_back_in_one_piece(void) {
    uint32_t most = NATIVE_PAGES * PAGE_BYTES - 16;  // the heap begins 8 bytes in
    uint32_t address = weei_alloc(most);
    CHECK(address != 0, "alloc(%u) failed", most);
    memset(at_address(address), 1, most);
    CHECK(weei_alloc(1) == 0, "more than there is");
    weei_free(address, most);
    CHECK(weei_alloc(most) == address, "a second time");
    weei_free(address, most);
}

static void test_refuses_what_cannot_fit(void) {
    CHECK(weei_alloc(NATIVE_PAGES * PAGE_BYTES) == 0, "more than the maximum");
    CHECK(weei_alloc(UINT32_MAX) == 0, "2^32 - 1 must not round up to 0");
    CHECK(weei_alloc(UINT32_MAX - 15) == 0, "2^32 - 16");
}

static void test_ignores_wrong_frees(void) {
    uint32_t first = weei_alloc(100), second = weei_alloc(100);
    weei_free(0, 16);
    weei_free(first + 4, 16);               // not aligned
    weei_free(first - 16, 16);              // before the heap
    weei_free(first, UINT32_MAX);           // past the end
    weei_free(second, 4096);                // reaches into a hole
    CHECK(weei_is_live(first, 112) && weei_is_live(second, 112), "a wrong free was taken");
    weei_free(first, 100);
    weei_free(first, 100);                  // twice
    CHECK(!weei_is_live(first, 100) && weei_is_live(second, 100), "after freeing one");
    CHECK(weei_alloc(100) == first && weei_alloc(100) != first, "one block given twice");
}

int main(void) {
    test_blocks_keep_their_content();
    test_all_memory_comes_back_in_one_piece();
    test_refuses_what_cannot_fit();
    test_ignores_wrong_frees();
    return 0;
}
