// The heap behind the exports `alloc` and `free`, shared by the host and the module.
#ifndef WEEI_ALLOC_H
#define WEEI_ALLOC_H

#include "platform.h"

// Address of `bytes` bytes, 16-byte aligned; 0 when the memory's declared maximum is reached.
uint32_t weei_alloc(uint32_t bytes);

// `bytes` is what was asked for. An address that cannot be a live block is ignored: a wrong call
// must not corrupt the heap and must not trap.
void weei_free(uint32_t address, uint32_t bytes);

// Whether every byte of the range is in the heap and in no hole, that is, in memory weei_alloc gave away.
bool weei_is_live(uint64_t address, uint64_t bytes);

#endif
