#include "store/schema.h"

#include <algorithm>
#include <array>

namespace kernelopt::store {

const char* const kSchemaSql = R"sql(
CREATE TABLE self(
  run TEXT NOT NULL) STRICT;
CREATE TABLE runs(
  run TEXT NOT NULL PRIMARY KEY,
  host TEXT NOT NULL,
  at_us INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE facts(
  id TEXT NOT NULL PRIMARY KEY,
  run TEXT NOT NULL,
  key TEXT NOT NULL,
  value TEXT NOT NULL CHECK(json_valid(value)),
  at_us INTEGER NOT NULL) STRICT;
CREATE INDEX facts_by_key ON facts(run, key, at_us);
CREATE TABLE kernels(
  run TEXT NOT NULL,
  key TEXT NOT NULL,
  name TEXT NOT NULL,
  detail TEXT NOT NULL CHECK(json_valid(detail)),
  PRIMARY KEY(run, key)) STRICT;
CREATE TABLE replacements(
  id TEXT NOT NULL PRIMARY KEY,
  kernel TEXT NOT NULL,
  origin TEXT NOT NULL,
  change TEXT NOT NULL,
  body TEXT NOT NULL CHECK(json_valid(body))) STRICT;
CREATE INDEX replacements_by_kernel ON replacements(kernel);
CREATE TABLE verdicts(
  id TEXT NOT NULL PRIMARY KEY,
  subject TEXT NOT NULL,
  gate INTEGER NOT NULL CHECK(gate BETWEEN 1 AND 4),
  stage TEXT NOT NULL,
  site TEXT NOT NULL,
  gpu TEXT NOT NULL,
  versions TEXT NOT NULL,
  variant TEXT NOT NULL,
  policy TEXT NOT NULL,
  data_version TEXT NOT NULL,
  kernel TEXT NOT NULL,
  accepted INTEGER NOT NULL CHECK(accepted IN (0, 1)),
  final INTEGER NOT NULL CHECK(final IN (0, 1)),
  reason TEXT NOT NULL,
  message TEXT NOT NULL,
  evidence TEXT NOT NULL CHECK(json_valid(evidence)),
  at_us INTEGER NOT NULL,
  host TEXT NOT NULL,
  session TEXT NOT NULL) STRICT;
CREATE INDEX verdicts_by_subject ON verdicts(subject, gate);
CREATE INDEX verdicts_by_kernel ON verdicts(kernel);
CREATE TABLE measurements(
  id TEXT NOT NULL PRIMARY KEY,
  subject TEXT NOT NULL,
  site TEXT NOT NULL,
  gpu TEXT NOT NULL,
  versions TEXT NOT NULL,
  variant TEXT NOT NULL,
  state TEXT NOT NULL,
  purpose TEXT NOT NULL,
  data_version TEXT NOT NULL,
  kernel TEXT NOT NULL,
  batch TEXT NOT NULL,
  unit TEXT NOT NULL,
  samples BLOB NOT NULL CHECK(length(samples) % 8 = 0),
  gpu_uuid TEXT NOT NULL,
  detail TEXT NOT NULL CHECK(json_valid(detail)),
  at_us INTEGER NOT NULL,
  host TEXT NOT NULL,
  session TEXT NOT NULL) STRICT;
CREATE INDEX measurements_by_subject ON measurements(subject);
CREATE INDEX measurements_by_kernel ON measurements(kernel);
CREATE TABLE steps(
  id TEXT NOT NULL PRIMARY KEY,
  run TEXT NOT NULL,
  name TEXT NOT NULL,
  state TEXT NOT NULL,
  detail TEXT NOT NULL CHECK(json_valid(detail)),
  at_us INTEGER NOT NULL,
  session TEXT NOT NULL) STRICT;
CREATE TABLE decisions(
  id TEXT NOT NULL PRIMARY KEY,
  run TEXT NOT NULL,
  kernel TEXT NOT NULL,
  kind TEXT NOT NULL,
  message TEXT NOT NULL,
  detail TEXT NOT NULL CHECK(json_valid(detail)),
  at_us INTEGER NOT NULL,
  session TEXT NOT NULL) STRICT;
)sql";

const std::vector<std::string> kMergedTables = {
    "runs", "facts", "kernels", "replacements", "verdicts", "measurements", "steps", "decisions"};

bool IsNetworkFileSystem(uint64_t statfs_magic) {
  static constexpr std::array<uint64_t, 13> kMagics = {
      0x6969,      // NFS
      0x517b,      // SMB
      0xff534d42,  // CIFS
      0xfe534d42,  // SMB2
      0x65735546,  // FUSE: sshfs, s3fs, and others that share no memory
      0x01021997,  // 9p
      0x5346414f,  // AFS
      0x6b414653,  // kAFS
      0x00c36400,  // Ceph
      0x0bd00bd0,  // Lustre
      0x47504653,  // GPFS
      0x73757245,  // Coda
      0x19830326,  // BeeGFS
  };
  return std::ranges::find(kMagics, statfs_magic & 0xffffffff) != kMagics.end();
}

}  // namespace kernelopt::store
