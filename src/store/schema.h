// The tables of store.db and the choice of journal (docs/store-schema.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kernelopt::store {

/// "KOPT": the file says what it is before any table is read.
inline constexpr int32_t kApplicationId = 0x4b4f5054;

/// The statements that make an empty database one of schema kStoreSchema.
extern const char* const kSchemaSql;

/// The tables that a merge joins, in an order that reads well.
extern const std::vector<std::string> kMergedTables;

/// Whether a file system (statfs f_type) is shared between hosts or served by
/// a program, where the shared memory that WAL needs doesn't work.
bool IsNetworkFileSystem(uint64_t statfs_magic);

}  // namespace kernelopt::store
